/** What a test rejects with: the gateway's error, or an answer of the app with a status of 400 and above. */
export declare class AppError extends Error {
  readonly code: string;
  readonly status: number;
  /** What an action or a webhook answered with in its own words. */
  // biome-ignore lint/suspicious/noExplicitAny: the handler says what it is
  readonly body?: any;
  /** The value that is wrong, as a JSON Pointer. */
  readonly path?: string;
  readonly issues?: { path: string; message: string; keyword: string }[];
}

/** The app in a test, with data, a clock and a network of its own. */
export interface TestApp {
  readonly id: string;
  query<Name extends keyof Queries & string>(
    name: Name,
    ...input: InputOf<Queries[Name]>
  ): Promise<Queries[Name]['output']>;
  /** Resolves to the action's body. */
  action<Name extends keyof Actions & string>(
    name: Name,
    ...input: InputOf<Actions[Name]>
  ): Promise<Actions[Name]['output']>;
  /** Rows as objects, or `{ changes, lastInsertRowid }`. */
  // biome-ignore lint/suspicious/noExplicitAny: only the SQL text says what it answers
  sql<T = any>(sql: string, params?: unknown[] | object): Promise<T>;
  /** Fires an automation; resolves to its run once it and what it led to have ended. */
  run(automation: string, input?: unknown): Promise<Row>;
  /** The latest runs, newest first. */
  runs(automation?: string): Promise<Row[]>;
  /** Posts to the webhook of an automation, signed as its sender would. */
  webhook(
    automation: string,
    body?: unknown,
    options?: { headers?: Record<string, string> },
    // biome-ignore lint/suspicious/noExplicitAny: the handler says what it is
  ): Promise<{ status: number; headers: Headers; body: any }>;
  clock: {
    /** Milliseconds since the epoch; it stands still. */
    readonly now: number;
    /** Lets time pass, such as `'1h 30m'` or milliseconds; resolves once all that was due has run. */
    advance(duration: number | string): Promise<void>;
    advanceTo(time: number | string | Date): Promise<void>;
  };
  secrets: {
    set(name: string, value: string): Promise<void>;
    delete(name: string): Promise<void>;
  };
  /** Answers what handlers fetch; what it throws is a host that cannot be reached. */
  onFetch(stub: (request: Request) => Response | undefined | Promise<Response | undefined>): void;
  readonly logs: Row[];
  /** Starts its code anew: what modules kept is gone, its data is there. */
  restart(): Promise<void>;
  /** Any request to the gateway, with its access token; a header that is empty is left out. */
  request(
    method: string,
    path: string,
    options?: { headers?: Record<string, string>; body?: unknown },
  ): Promise<Response>;
}

/** Starts the app for a test of `node:test`, or with `{ after }` for all tests of a file. `now`: the time at first. */
export declare function harness(
  t: { after(cleanup: () => Promise<void>): void },
  options?: { now?: number | string | Date },
): Promise<TestApp>;

/** It may be left out where `{}` is one. */
type InputOf<Tool extends { input: object }> =
  Record<never, never> extends Tool['input'] ? [input?: Tool['input']] : [input: Tool['input']];
