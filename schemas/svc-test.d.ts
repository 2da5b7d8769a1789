/** Calls in a test reject with this: the gateway's error, or an answer of the app with a status of 400 or above. */
export declare class AppError extends Error {
  readonly code: string;
  readonly status: number;
  /** The body that an action or a webhook answered with. */
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the handler
  readonly body?: any;
  /** The value that is wrong, as a JSON Pointer. */
  readonly path?: string;
  readonly issues?: { path: string; message: string; keyword: string }[];
}

/** Calls the tools of the app. */
interface Calls {
  query<Name extends keyof Queries & string>(
    name: Name,
    ...input: InputOf<Queries[Name]>
  ): Promise<Queries[Name]['output']>;
  /** Resolves to the action's body. */
  action<Name extends keyof Actions & string>(
    name: Name,
    ...input: InputOf<Actions[Name]>
  ): Promise<Actions[Name]['output']>;
}

/** Somebody with an account, who has the app in a role. Handlers see them as `ctx.user`. */
export interface TestPerson extends Calls {
  readonly id: string;
  readonly name: string;
}

/** The app in a test, with separate data, clock and network. Its calls are the administrator's. */
export interface TestApp extends Calls {
  readonly id: string;
  /** Makes an account; `role` is `viewer`, `editor` (the default), `manager`, or one of the manifest. */
  person(name: string, options?: { role?: string }): Promise<TestPerson>;
  /** Rows as objects, or `{ changes, lastInsertRowid }`. */
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the SQL text
  sql<T = any>(sql: string, params?: unknown[] | object): Promise<T>;
  /** Fires an automation; resolves to its run when it and the runs that it led to have ended. */
  run(automation: string, input?: unknown): Promise<Row>;
  /** The latest runs, newest first. */
  runs(automation?: string): Promise<Row[]>;
  /** Posts to the webhook of an automation, signed as its sender would. */
  webhook(
    automation: string,
    body?: unknown,
    options?: { headers?: Record<string, string> },
    // biome-ignore lint/suspicious/noExplicitAny: its type depends on the handler
  ): Promise<{ status: number; headers: Headers; body: any }>;
  clock: {
    /** Milliseconds since the epoch; it stands still. */
    readonly now: number;
    /** Lets time pass, such as `'1h 30m'` or milliseconds; resolves when everything that was due has run. */
    advance(duration: number | string): Promise<void>;
    advanceTo(time: number | string | Date): Promise<void>;
  };
  secrets: {
    set(name: string, value: string): Promise<void>;
    delete(name: string): Promise<void>;
  };
  /** `stub` answers the requests of handlers; if it throws, the host counts as unreachable. */
  onFetch(stub: (request: Request) => Response | undefined | Promise<Response | undefined>): void;
  readonly logs: Row[];
  /** What it has sent with `ctx.notify`, oldest first; `url` as the handler gave it. */
  readonly notices: readonly { title: string; text: string; url?: string }[];
  /** Restarts its code: module state is lost, data stays. */
  restart(): Promise<void>;
  /** Any request to the gateway, with its access token; an empty header is left out. */
  request(
    method: string,
    path: string,
    options?: { headers?: Record<string, string>; body?: unknown },
  ): Promise<Response>;
}

/**
 * Starts the app for a test of `node:test`, or with `{ after }` for all tests of a file. `now`: the time at the start.
 */
export declare function harness(
  t: { after(cleanup: () => Promise<void>): void },
  options?: { now?: number | string | Date },
): Promise<TestApp>;

/** The input may be left out if `{}` is a valid one. */
type InputOf<Tool extends { input: object }> =
  Record<never, never> extends Tool['input'] ? [input?: Tool['input']] : [input: Tool['input']];
