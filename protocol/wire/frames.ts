/** Defines the frames between our processes: arrays that begin with their kind. They carry inputs and results as JSON bytes. */
import type { AgentScope, ProbeOrder, ProbeResult, RunnerEvent, TurnOrder } from '../agents/agents.ts';
import type { ToolServerState } from '../agents/tool-server-entries.ts';
import type { ErrorBody } from '../errors.ts';
import type { EgressPolicy } from '../rules/egress.ts';
import type { CommonsEnd, LeaveReason } from './commons.ts';
import type { JobAnswer, JobFailure, JobName, JobPool } from './jobs.ts';

export const Kind = {
  hello: 1,
  ready: 2,
  dispatch: 3,
  result: 4,
  error: 5,
  cancel: 6,
  ping: 7,
  pong: 8,
  log: 9,
  db: 10,
  dbResult: 11,
  dbError: 12,
  start: 13,
  stop: 14,
  exited: 15,
  stuck: 16,
  ask: 17,
  answer: 18,
  toolServer: 19,
  toolProcess: 20,
  job: 21,
  jobDone: 22,
  resume: 23,
  resumed: 24,
  turn: 25,
  turnEvents: 26,
  turnTaken: 27,
  turnAnswer: 28,
  turnEnd: 29,
  probe: 30,
  probed: 31,
  secrets: 32,
  endAgents: 33,
  committed: 35,
  clock: 40,
  blob: 36,
  blobDone: 37,
  reads: 41,
  schemaChanged: 42,
  spans: 43,
  flush: 44,
  flushed: 45,
  sql: 46,
  slow: 47,
  halt: 48,
  elsewhere: 49,
  owned: 50,
  released: 51,
  replaced: 53,
  caller: 52,
  commons: 54,
  resident: 55,
  leaves: 56,
  commonsEnded: 57,
} as const;

/**
 * What a dispatched call runs. `fire` is an automation's handler; `server` is a tool of an MCP server, named `<server>.<tool>`,
 * whose body is the JSON text of its arguments and whose result is JSON text. `tracked` is a query that says what it read, see
 * the frame `reads`.
 */
export const ToolKind = { query: 0, action: 1, fire: 3, server: 4, tracked: 5 } as const;
export type ToolKindValue = (typeof ToolKind)[keyof typeof ToolKind];

/** After `client-gone` the call may still finish; the others end it. */
export type CancelReason = 'deadline' | 'cancelled' | 'client-gone' | 'shutdown';

/** Upper bounds of the buckets of `CommitGroups`; a last bucket has what is larger. */
export const GROUP_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256] as const;

/** How many operations the commits of a writer had: all together, and how many commits had as many, see `GROUP_BUCKETS`. */
export type CommitGroups = { operations: number; buckets: number[] };

/** Upper bounds in milliseconds of the buckets of `LogWaits`; a last bucket has what is longer. */
export const LOG_WAIT_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] as const;

/**
 * How long commits of a writer waited until the log of pages of a cluster had them, how many operations those had, and how many commits
 * it did not get.
 */
export type LogWaits = { ms: number; buckets: number[]; operations: number; failed: number };

/** Groups of commits that the log of pages has, the milliseconds that storing them took, and their bytes. */
export type LogGroups = { groups: number; ms: number; bytes: number };

/** What a process or thread says of itself in a heartbeat: bytes, and microseconds of CPU. */
export type ProcessStats = {
  rss?: number;
  heapUsed: number;
  cpuUser?: number;
  cpuSystem?: number;
  counters?: Record<string, number>;
  groups?: CommitGroups;
  logged?: LogWaits;
  logGroups?: LogGroups;
};

/** Why a file or folder was not flushed: the code that Node gave, such as `ENOSPC`. */
export type FlushFault = { code: string; message: string };

/** Requests of a running call to the supervisor: the members of its `ctx` that work outside its thread. Actions have `notify` only. */
export const ASKS = [
  'tool',
  'agent',
  'state.get',
  'state.set',
  'state.delete',
  'runs.last',
  'runs.list',
  // The thread makes the request itself: these tell of it, for the record of the run.
  'fetch',
  'fetched',
  'notify',
] as const;
export type AskVerb = (typeof ASKS)[number];

/** A value that SQLite stores. Integers outside ±2^53 travel as bigint, blobs as bytes. */
export type SqlValue = null | number | bigint | string | Uint8Array;
/** Positional parameters, or one object of named ones. */
export type SqlParams = SqlValue[] | Record<string, SqlValue>;
/** The answer of `run` and of each statement of a `batch`. */
export type RunResult = { changes: number; lastInsertRowid: number | bigint };
/** A row by column name. */
export type Row = Record<string, SqlValue>;
export type SqlStatement = [sql: string, params: SqlParams];
/** How the writer came to an answer: milliseconds of `monotonicMs`, and how many operations were committed together. */
export type WriterTiming = [receivedAt: number, begunAt: number, endedAt: number, group: number];

/**
 * What a traced call did in its thread, with times of `monotonicMs` and an empty `error` where it went well. `db`: an operation of
 * the writer, which waited `waitedMs` for its turn. `fetch`: a request, `status` 0 without an answer.
 */
export type ThreadSpan =
  | [what: 'db', begunAt: number, endedAt: number, error: string, operation: string, waitedMs: number, group: number]
  | [
      what: 'fetch',
      begunAt: number,
      endedAt: number,
      error: string,
      method: string,
      spanId: string,
      host: string,
      port: number,
      status: number,
    ];

/** One file of `migrations/`: its name, which starts with its number, and its path. */
export type MigrationFile = { name: string; path: string };

/** Operations on one database; from `userVersion` on they are refused unless the ticket says `maintain`. */
export const DbOp = {
  run: 0,
  get: 1,
  all: 2,
  batch: 3,
  exec: 4,
  begin: 5,
  commit: 6,
  rollback: 7,
  userVersion: 8,
  migrate: 9,
  close: 10,
  settle: 11,
} as const;

/**
 * One line of JSON on a host's standard input; the host ends when that input ends. `spare: false` keeps no thread in reserve,
 * `'once'` none after the first. With as many threads as `shortOfMemory`, by default no number, there is none in reserve either.
 */
export type HostBootstrap = {
  supervisorSocket: string;
  ticket: string;
  actorMemoryMb: number;
  spare?: boolean | 'once';
  shortOfMemory?: number;
};

/** What a handler host needs to run one version of an app. */
export type ActorSpec = {
  actorId: number;
  /** The key of the app's data: its id, or that of a draft. */
  app: string;
  /** The app's name for people, in its log. */
  shownApp: string;
  name: string;
  version: string;
  versionId: string;
  codeDir: string;
  /** Folder of its code. */
  blobs: { own: string; live: string | null };
  /** Folder with prepared files: `validators.js`, which must exist. */
  preparedDir: string;
  dataFile: string;
  /** The version has migrations, which have run: the file is there and is not made. */
  migrated: boolean;
  /** Sockets and signed tickets of this actor; those for the writer are empty where it is an automation's. */
  supervisorSocket: string;
  writerSocket: string;
  supervisorTicket: string;
  writerTicket: string;
  maxResultBytes: number;
  /** Where `ctx.fetch` may connect to. */
  egress: EgressPolicy;
  /** The automation that this thread fires; null for the actor that runs the app's queries and actions. */
  automation: string | null;
  /** Names of the tools; `queries/<name>` and `actions/<name>`, `.js` or `.ts`, are loaded when they are first called. */
  queries: string[];
  actions: string[];
};

/** Why an actor or a process ended: a closed list, shown in status and counted. */
export const RETIRE_REASONS = [
  'idle',
  'evicted',
  'superseded',
  'deadline',
  'memory',
  'crash',
  'unresponsive',
  'shutdown',
  'removed',
  'moved',
  'replaced',
] as const;
export type RetireReason = (typeof RETIRE_REASONS)[number];

/** Where the writer of a database is reached, and the ticket for it. */
export type SqlWriter = { socket: string; ticket: string };

/**
 * A statement of a caller. `body` is JSON text with `sql`, `params` and `mode`, see `sql-tool.ts`. Without `writer` it only reads:
 * one that writes is answered with the status `writes`, and nothing was done.
 */
export type SqlOrder = {
  body: Uint8Array;
  dataFile: string;
  /** The file is there: it is lost where it is not, and none is made. */
  migrated: boolean;
  writer: SqlWriter | null;
  maxResultBytes: number;
};

/** How a statement of a caller ended: it only read, it may have written, or it would write. */
export const SqlStatus = { read: 200, wrote: 201, writes: 202 } as const;

/** How far a connection has come: the highest `id` of its operations outside transactions, and of its commits, that may be stored. */
export type ConnectionProgress = [connectionId: number, operation: number, commit: number];

/** What a writer is told of clients at earlier ones. */
export type EarlierClients = {
  progress: ConnectionProgress[];
  /** There may be connections beside these, of which nothing is known. */
  isPartial: boolean;
};

/** A bucket, and the epoch in which a node owns it. */
export type OwnedBucket = [bucket: number, epoch: number];

/** The members after the kind, for each kind of frame. */
type Frames = {
  /** First frame on every connection: the ticket that says who is calling. `connectionId` names it to the writer, for `resume`. */
  hello: [ticket: string, connectionId?: number];
  /** Client → writer: that connection was lost; how far had it come? */
  resume: [connectionId: number];
  /** Writer → client: as in `ConnectionProgress`; 0 when there was none, -1 when that is not known. */
  resumed: [operation: number, commit: number];
  /** Shared writer → client: the database of its ticket has a separate writer, at this socket. Nothing was done. */
  elsewhere: [socket: string];
  /** To a writer with a log of pages: all buckets that the node owns now. `turn` grows with each such frame. */
  owned: [turn: number, buckets: OwnedBucket[]];
  /** From it: of buckets that the frame of this turn, or one before it, left out, everything is in the log and every file is closed. */
  released: [turn: number];
  /** From it: the file of the database of that name is another one, or gone, as the log of pages has it; who has it open reads the old one. */
  replaced: [name: string];
  /** Child or actor → supervisor: able to work. `detail` is shown in the process tree. */
  ready: [detail: { pid: number; threadId?: number }];
  /**
   * Supervisor → actor. `body` is the JSON text of the request, whose `input` member is the input; empty means `{}`. `traceId` is a
   * whole `traceparent` where traces are recorded. `caller` is the number of one that the frame `caller` told of.
   */
  dispatch: [
    callId: number,
    remainingMs: number,
    kind: ToolKindValue,
    tool: string,
    body: Uint8Array,
    traceId: string,
    caller: number,
  ];
  /**
   * Supervisor → actor: whom this number stands for from now on. `kind` is a place in `CALLER_KINDS`, `text` what `callerText` says of
   * them.
   */
  caller: [caller: number, kind: number, text: string];
  /**
   * Actor → supervisor. `status` is 200 for queries, else the envelope's; `body` is JSON text: a query's value, an action's `body`
   * member, a fire's `{ summary?, output? }`. `handlerMs` is the time from the arrival of the dispatch. SQL process → supervisor:
   * `status` is a `SqlStatus`, `body` the answer.
   */
  result: [callId: number, status: number, body: Uint8Array, handlerMs: number];
  /** Actor or SQL process → supervisor: the call failed; `wrote` says that one of its writes is stored. */
  error: [callId: number, error: ErrorBody, handlerMs: number, wrote?: boolean];
  /** Supervisor → actor: the caller no longer waits for this call. */
  cancel: [callId: number, reason: CancelReason];
  ping: [n: number];
  pong: [n: number, stats: ProcessStats];
  /** Actor → supervisor: one line of JSON for the app's log; with `callId`, that fire's followers get it too. */
  log: [line: string, callId?: number];
  /**
   * Action or fire → supervisor. `askId` pairs the request with its answer; `payload` is JSON text, an object of the verb's arguments.
   */
  ask: [askId: number, callId: number, verb: AskVerb, payload: Uint8Array];
  /** Supervisor → action or fire. `body` is JSON text: what was asked for (empty for undefined), or an `ErrorBody` when `ok` is false. */
  answer: [askId: number, ok: boolean, body: Uint8Array];
  /**
   * Worker or supervisor → writer. `id` pairs the answer with the request; `tx` is the number that `begin` answered, 0
   * outside a transaction. A commit is refused when an operation of the transaction failed whose id is `since` or later, unless
   * that is 0. `timed`, at the end, asks for a `WriterTiming` with the answer. Flat, because every write of every app is one.
   */
  db:
    | [
        id: number,
        op: typeof DbOp.run | typeof DbOp.get | typeof DbOp.all,
        tx: number,
        sql: string,
        params: SqlParams,
        timed?: true,
      ]
    | [id: number, op: typeof DbOp.batch, tx: number, statements: SqlStatement[], timed?: true]
    | [id: number, op: typeof DbOp.exec, tx: number, sql: string, timed?: true]
    | [id: number, op: typeof DbOp.commit, tx: number, since: number, timed?: true]
    | [id: number, op: typeof DbOp.rollback, tx: number]
    | [id: number, op: (typeof DbOp)['begin' | 'userVersion' | 'close' | 'settle'], tx: 0, timed?: true]
    | [id: number, op: typeof DbOp.migrate, tx: 0, files: MigrationFile[], backupTo: string | null];
  /**
   * Writer → asker, after the commit. run: a `RunResult`; get: row or null; all: rows; batch: an array of run results; exec,
   * commit, rollback, close, settle: null; begin: the transaction's number; userVersion: number; migrate: numbers applied.
   */
  dbResult: [id: number, value: unknown, timing?: WriterTiming];
  /** `code` is SQLite's own where it has one. Migration errors carry the file in `path`. */
  dbError: [id: number, error: ErrorBody, timing?: WriterTiming];
  start: [spec: ActorSpec];
  /** Without `force` the actor first finishes the calls it has; `force` ends the thread, as far as it is not in native code. */
  stop: [actorId: number, force: boolean];
  /** Supervisor → host: start the thread of the commons, with this ticket. */
  commons: [ticket: string];
  /** Supervisor → commons and back: a frame to or from the actor of this number, as on the connection of a thread of its own. */
  resident: [actorId: number, frame: unknown[]];
  /** Commons → supervisor: the app goes on in a thread of its own, and its calls run again. Nothing more comes of it. */
  leaves: [actorId: number, reason: LeaveReason, detail: string];
  /** Host → supervisor: the thread of the commons is given up, in a turn of this actor, 0 for none. */
  commonsEnded: [actorId: number, end: CommonsEnd, detail: string];
  /** Host → supervisor. `stopped` is answered to `stop` only; `detail` is for people and holds no path. */
  exited: [actorId: number, reason: 'stopped' | 'memory' | 'crash' | 'failed_to_start', detail: string];
  /** Watch thread of the shared writer → supervisor: a statement of an app takes long. It goes on unless the answer is `halt`. */
  slow: [];
  /** Supervisor → watch thread: begin nothing after the slow statement, and report `stuck`. Ignored if it has ended meanwhile. */
  halt: [];
  /**
   * Watch thread → supervisor: the writer has been busy with one statement on this app's database for `ms`, and begins no more
   * operations; what it was busy with is not stored. `progress` is null when there were too many connections.
   */
  stuck: [app: string, file: string, ms: number, progress: ConnectionProgress[] | null];
  /** Agents → supervisor: the state of an MCP server, the reason, and for our log the end of its standard error. */
  toolServer: [server: string, state: ToolServerState, detail: string, said: string];
  /** Agents → supervisor: a program of an agent, or an MCP server, which leads a process group, has started or ended. */
  toolProcess: [pid: number, alive: boolean, role: 'agent' | 'mcp-server'];
  /** Supervisor → jobs process: do this now, within `ms`. A `cancel` frame with the same number asks it to end soon. */
  job: [jobId: number, name: JobName, pool: JobPool, ms: number, job: object];
  /** Jobs process → supervisor. */
  jobDone: [jobId: number, answer: JobAnswer<unknown> | JobFailure];
  /** Jobs process → supervisor: flush this file or folder, which Node 26 and later do not let a confined process do. */
  flush: [flushId: number, path: string];
  /** Supervisor → jobs process, once it is durable, or why it is not: a fault with the code that `fsync` gave. */
  flushed: [flushId: number, fault: FlushFault | null];
  /** Supervisor → SQL process: run this statement now. It has one at a time. */
  sql: [statementId: number, order: SqlOrder];
  /** Supervisor → agents: run this turn. A `cancel` frame with the same number ends it. */
  turn: [turn: number, order: TurnOrder];
  /** Agents → supervisor: events of the agent; `bytes` is their size as counted in `turnTaken`. */
  turnEvents: [turn: number, events: RunnerEvent[], bytes: number];
  /** Supervisor → agents: this many bytes of events are stored. While too many are not, the agent's output is not read. */
  turnTaken: [turn: number, bytes: number];
  /** Supervisor → agents: the answer to a `permission`; null denies. */
  turnAnswer: [turn: number, requestId: string, optionId: string | null];
  /** Agents → supervisor: no more events of this turn. */
  turnEnd: [turn: number];
  /** Supervisor → agents: probe a runner. A `cancel` frame with the same number ends it. */
  probe: [probe: number, order: ProbeOrder];
  /** Agents → supervisor. `failed` is for people. */
  probed: [probe: number, answer: ProbeResult | { failed: string }];
  /**
   * Supervisor → actor: the secrets of its app from now on. `fault` says why the `unreadable` ones have no value; all of them when
   * that is null.
   */
  secrets: [values: [name: string, value: string][], unreadable: string[] | null, fault: string];
  /**
   * Writer → supervisor, before the answers of its commit: it took the app's database from one state to the other, see
   * `storage/wal-index.ts`, and wrote these tables. Null for what is not known.
   */
  committed: [app: string, before: Uint8Array | null, after: Uint8Array | null, tables: string[] | null];
  /** Supervisor → actor of an app that is tested: its `Date` shows this time from now on, in milliseconds since the epoch. */
  clock: [at: number];
  /**
   * Actor → supervisor, one at a time: `put` stores `content` as a file of the app, `name` being its type; `delete` deletes the file
   * `name`. `callId` is the call that asks.
   */
  blob: [askId: number, callId: number, verb: 'put' | 'delete', name: string, content: Uint8Array];
  /** Supervisor → actor. `body` is JSON text: a `BlobRecord`, or whether a file was deleted; an `ErrorBody` when `ok` is false. */
  blobDone: [askId: number, ok: boolean, body: Uint8Array];
  /**
   * Actor → supervisor, before the result of a `tracked` query: the tables that it read, null for any; whether its result
   * depends on these only; and whether it read the caller.
   */
  reads: [callId: number, tables: string[] | null, keep: boolean, caller: boolean];
  /** Supervisor → actor: what the thread knows of the tables of statements may be outdated. */
  schemaChanged: [unused: 0];
  /**
   * Actor → supervisor, before the result of a call whose trace is recorded: what it did. `spanId` is the span of the call in
   * the thread. At most `LIMITS.spansOfCall`; `leftOut` counts the others.
   */
  spans: [callId: number, spanId: string, begunAt: number, endedAt: number, spans: ThreadSpan[], leftOut: number];
  /** Supervisor → agents: these conversations have ended. Their agents end too, busy ones after their turn. */
  endAgents: [unused: 0, over: AgentScope];
};

export type FrameOf<K extends keyof Frames> = [kind: (typeof Kind)[K], ...Frames[K]];
export type Frame = { [K in keyof Frames]: FrameOf<K> }[keyof Frames];
