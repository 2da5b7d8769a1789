/** Values that SQLite takes and returns. An integer beyond 2^53 is a `bigint`, bytes are a `Uint8Array`. */
export type Value = string | number | bigint | boolean | null | undefined | Date | Uint8Array;

/** Values for `?`, one array of them, or one object for `:name`, `@name` and `$name`. */
export type Parameters = Value[] | [readonly Value[]] | [object];

// biome-ignore lint/suspicious/noExplicitAny: its members depend on the SQL text
export type Row = Record<string, any>;

export type Changes = { changes: number; lastInsertRowid: number | bigint };

/** Rows as JSON. A handler returns it unchanged, or as a part of its result. */
export interface RowsJson {
  /** The JSON text. */
  toString(): string;
  toJSON(): unknown;
}

export interface Transaction {
  /** The first row, or null. */
  get<T = Row>(sql: string, ...parameters: Parameters): Promise<T | null>;
  all<T = Row>(sql: string, ...parameters: Parameters): Promise<T[]>;
  /** All rows for the caller, as `all` would give them, without an object for each. */
  json(sql: string, ...parameters: Parameters): Promise<RowsJson>;
  /** On disk when it resolves. A failure that the handler neither awaits nor catches fails the call. */
  run(sql: string, ...parameters: Parameters): Promise<Changes>;
  /** All of them or none. */
  batch(statements: [sql: string, ...parameters: unknown[]][]): Promise<Changes[]>;
  /** Several statements in one text, all or none. */
  exec(sql: string): Promise<null>;
}

/** The app's database. */
export interface Database extends Transaction {
  /** Commits when `work` returns, and rolls back when it throws. */
  transaction<T>(work: (tx: Transaction) => Promise<T> | T): Promise<T>;
  prepare(sql: string): Statement;
}

export interface Statement {
  get<T = Row>(...parameters: Parameters): Promise<T | null>;
  all<T = Row>(...parameters: Parameters): Promise<T[]>;
  json(...parameters: Parameters): Promise<RowsJson>;
  run(...parameters: Parameters): Promise<Changes>;
}

/** Text and objects in any order. */
export interface Log {
  debug(...parts: unknown[]): void;
  info(...parts: unknown[]): void;
  warn(...parts: unknown[]): void;
  error(...parts: unknown[]): void;
}

/** Who calls. `name` is that of the token, the agent's runner, the person, or the automation's ref. */
export interface Caller {
  readonly kind: 'admin' | 'session' | 'token' | 'public' | 'agent' | 'automation' | 'person' | 'guest';
  readonly name?: string;
}

/** The person who calls. `picture` is the path of one, for the app's page. `role` is `owner` for an owner of the gateway, else `viewer`, `editor` or `manager` of the app. */
export interface User {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly picture?: string;
  readonly role: string;
}

interface AnyContext {
  caller: Caller;
  /** Null where no person is known: for tokens, agents, automations, visitors and guests. */
  user: User | null;
  /** For http and https, to the hosts that `network` in app.json allows; aborted at the end of the call. */
  fetch: typeof globalThis.fetch;
  /** Aborts when the caller disconnects, or the time is up. */
  signal: AbortSignal;
  secrets: { get(name: string): Promise<string> };
  /**
   * Tells people, by mail, webhook and browser. Not in queries. `url` is absolute, or relative to the app's page. Resolves
   * when the notice is accepted, with the number of channels that it goes to. At most 60 in an hour: `RATE_LIMITED`.
   */
  notify(notice: { title: string; text: string; url?: string }): Promise<{ channels: number }>;
  /** The files that the app keeps, each of up to 16 MiB here. A missing file is null or false. */
  blobs: {
    /**
     * Not in queries. A text is `text/plain` by default, bytes are `application/octet-stream`. A failure that the handler
     * neither awaits nor catches fails the call, here and in `delete`.
     */
    put(content: string | Uint8Array | ArrayBuffer, options?: { type?: string }): Promise<StoredFile>;
    get(sha256: string): Promise<Uint8Array | null>;
    stat(sha256: string): Promise<StoredFile | null>;
    /** Not in queries. */
    delete(sha256: string): Promise<boolean>;
  };
}

export interface Context extends AnyContext {
  /** When the call times out, in milliseconds since the epoch. */
  deadline: number;
  traceId: string;
}

interface ToolArgs {
  db: Database;
  log: Log;
  app: Readonly<{ id: string; name: string; version: string; versionId: string }>;
  ctx: Context;
}

/** The argument of a query's handler. */
export interface QueryArgs<Name extends keyof Queries> extends ToolArgs {
  input: Queries[Name]['input'];
  query: Queries[Name]['input'];
}

/** The argument of an action's handler. */
export interface ActionArgs<Name extends keyof Actions> extends ToolArgs {
  input: Actions[Name]['input'];
  body: Actions[Name]['input'];
}

export interface AutomationContext extends AnyContext {
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the tool
  tool<T = any>(name: string, args?: object): Promise<T>;
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the agent
  agent<T = any>(request: { prompt: string; json?: boolean }): Promise<T>;
  state: {
    // biome-ignore lint/suspicious/noExplicitAny: its type is that of the stored value
    get<T = any>(key: string): Promise<T | undefined>;
    set(key: string, value: unknown): Promise<void>;
    delete(key: string): Promise<void>;
  };
  runs: {
    list(filter?: RunFilter): Promise<Row[]>;
    last(filter?: RunFilter): Promise<Row | null>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the fire
  input: any;
  /** The time of the fire, in milliseconds since the epoch. */
  now: number;
}

export type RunFilter = { ref?: string; state?: string; limit?: number };

/** The argument of an automation's handler. */
export interface AutomationArgs {
  ctx: AutomationContext;
  log: Log;
  // biome-ignore lint/suspicious/noExplicitAny: its type depends on the fire
  input: any;
  /** The request of a webhook; undefined for other fires. */
  request?: { headers: Record<string, string>; contentType: string | null; rawBody: string };
  automation: Readonly<{ ref: string; id: string; name: string; version: string }>;
}

export type Change =
  | {
      type: 'change';
      table: string;
      tables: string[];
      action: string;
      source: string;
      /** The person whose call it was; absent where no person is known. */
      by?: { id: string; name: string };
      ts: number;
      seq: number;
    }
  | { type: 'reset'; tables: [] };

/** A file that the app keeps, by the SHA-256 of its content in hex; `size` in bytes. */
export type StoredFile = { sha256: string; size: number; type: string };

export type Status = 'online' | 'offline' | 'signed-out';

/** `window.svc` in the app's page. */
export interface Svc {
  appId: string;
  /** True for a visitor of a public page, without a sign-in. */
  readonly visitor: boolean;
  /** The person who has the page open; null where nobody with an account does. */
  readonly user: User | null;
  /** Goes to where one signs in, and comes back. */
  signIn(): void;
  /** Shows the account of who is signed in, where one signs out. */
  signOut(): void;
  /** Shows the dialog in which the app is shared with others. */
  share(): void;
  read<Name extends keyof Queries & string>(request: Call<'query', Name, Queries>): Promise<Queries[Name]['output']>;
  /**
   * Rejects for a status of 400 and above. With `once`, a call that got no answer (`UNREACHABLE`) and is repeated with
   * the same input runs only once.
   */
  write<Name extends keyof Actions & string>(
    request: Call<'action', Name, Actions> & { once?: boolean },
  ): Promise<Actions[Name]['output']>;
  /** Stores a file of up to 100 MiB; `svc.url('_blobs/<sha256>')` shows it. `onProgress` gets a number from 0 to 1. */
  upload(
    file: globalThis.Blob,
    options?: { onProgress?: (progress: number) => void; signal?: AbortSignal },
  ): Promise<StoredFile>;
  /** The address of a file, `_blobs/<sha256>`, that an element can load: signed for this browser and session. */
  url(address: string): string;
  /** As `fetch`, with what the gateway asks of a page: for routes that have no member here. */
  fetch: typeof globalThis.fetch;
  /** Whether the gateway can be called now. The document gets the event `svc:status` for each change. */
  readonly status: Status;
  /**
   * Calls back with the query's result at once and whenever it differs; returns a function that ends it. `onError` gets
   * the reason if there is no result for now.
   */
  live<Name extends keyof Queries & string>(
    query: Name,
    input: Queries[Name]['input'],
    callback: (result: Queries[Name]['output']) => void,
    onError?: (error: Error & { code: string }) => void,
  ): () => void;
  /** Calls back after every write, of any client; returns a function that ends it. */
  onChange(callback: (change: Change) => void): () => void;
  settings: Readonly<Record<string, string>>;
  saveSettings(patch: Record<string, string | null>): Promise<unknown>;
  describe(filter?: { query: string } | { action: string }): Promise<Row>;
}

/** `input` may be left out if `{}` is a valid one. */
type Call<Kind extends string, Name extends keyof Tools, Tools extends Record<Name, { input: object }>> = {
  [kind in Kind]: Name;
} & (Record<never, never> extends Tools[Name]['input']
  ? { input?: Tools[Name]['input'] }
  : { input: Tools[Name]['input'] });

declare global {
  interface Window {
    svc: Svc;
  }
  interface DocumentEventMap {
    'svc:status': CustomEvent<{ status: Status }>;
  }
}
