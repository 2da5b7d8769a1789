/** Defines the error codes and the shape of errors in answers (specification, "Errors"). */
import { count, listOf, type Of, object, text } from './shapes/schema.ts';

/** Code → HTTP status and when it is used. Tests compare the documentation with this table. */
export const ERROR_CODES = {
  BAD_REQUEST: { status: 400, when: 'The request is not valid HTTP or JSON, or its body has the wrong shape.' },
  UNAUTHORIZED: { status: 401, when: 'The access token, or the session cookie or its page key, is missing or wrong.' },
  FORBIDDEN: {
    status: 403,
    when: 'The token or cookie is valid, but not for this: it belongs to another origin, or to other apps or tools.',
  },
  FRESH_SIGN_IN_NEEDED: {
    status: 403,
    when: 'A person signed in too long ago for this change of their account, and has not confirmed it since.',
  },
  MISDIRECTED: { status: 421, when: 'The gateway does not serve this Host; add it to `allowedHosts`.' },
  NOT_FOUND: { status: 404, when: 'Nothing is served at this address.' },
  METHOD_NOT_ALLOWED: {
    status: 405,
    when: 'The address does not support this method; `Allow` lists those that it does.',
  },
  LENGTH_REQUIRED: { status: 411, when: 'The request uses a transfer encoding that this edge does not support.' },
  PAYLOAD_TOO_LARGE: { status: 413, when: 'The body is larger than the route allows.' },
  RANGE_NOT_SATISFIABLE: { status: 416, when: 'The requested range lies outside the file.' },
  HEADERS_TOO_LARGE: { status: 431, when: 'The request has too many or too large headers.' },
  RATE_LIMITED: { status: 429, when: 'Too many requests in the window; `Retry-After` says when to try again.' },
  CONFLICT: { status: 409, when: 'The same operation is already running, or the name is taken.' },
  OVERLOADED: {
    status: 503,
    when: 'The mailbox of the app, or the gateway, is full; `Retry-After` says when to try again.',
  },
  INTERNAL: { status: 500, when: 'The gateway or its disk failed; see its log.' },

  RESERVED_ID: { status: 400, when: 'The id starts with an underscore.' },
  INVALID_ID: { status: 400, when: 'The id does not match the grammar for app ids.' },
  UNKNOWN_TOOL: { status: 404, when: 'The dispatcher has no tool of this name.' },
  UNKNOWN_APP: { status: 404, when: 'No app is registered under this id.' },
  UNKNOWN_QUERY: { status: 404, when: 'The app has no query of this name.' },
  UNKNOWN_ACTION: { status: 404, when: 'The app has no action of this name.' },
  UNKNOWN_VERSION: { status: 404, when: 'The app has no version of this id.' },
  WRONG_KIND: { status: 400, when: 'A query was called through svc_write, or an action through svc_read.' },
  INVALID_INPUT: { status: 400, when: 'The input does not match the schema; `path` points at the value.' },
  NO_ACTIVE_VERSION: { status: 503, when: 'The app is registered but has no active version.' },
  QUARANTINED: { status: 503, when: 'The app crashed too often; upload or activate a version, or restart it.' },
  HANDLER_ERROR: { status: 500, when: 'The handler threw, timed out, died, or returned an unsendable value.' },
  NOT_CONFIRMED: {
    status: 403,
    when: 'An agent called an action with `confirmation: "required"`, and a person refused it or did not answer.',
  },
  OUTCOME_UNKNOWN: {
    status: 500,
    when: 'SQL of a caller that writes was interrupted; what it writes is stored completely or not at all.',
  },
  IDEMPOTENCY_MISMATCH: { status: 422, when: 'The idempotency key was used before with another input.' },

  INVALID_MANIFEST: {
    status: 400,
    when: 'The manifest is not valid; `path` names the field (500 through the dispatcher).',
  },
  INVALID_AUTOMATION: {
    status: 400,
    when: 'The file of an automation is not valid; `path` names the file and the field, `issues` lists every error.',
  },
  UNKNOWN_AUTOMATION: { status: 404, when: 'The app has no automation of this id.' },
  UNKNOWN_RUN: { status: 404, when: 'No run of this id is kept.' },
  TOOL_REFUSED: { status: 403, when: 'An automation called a tool or an app that its file does not allow.' },
  TOOL_SERVER_FAILED: { status: 502, when: 'An MCP server is not reachable, is not configured, or reports a failure.' },
  NO_RUNNER: {
    status: 503,
    when: 'No agent can take the turn: none is installed or configured, or what it needs is missing; the message says what to do.',
  },
  AGENT_FAILED: {
    status: 502,
    when: 'The agent failed, or did not answer with the requested JSON.',
  },
  MODE_UNAVAILABLE: {
    status: 409,
    when: 'Mode `full` needs the git store, or the first message of the conversation set the other mode.',
  },
  UNKNOWN_WINDOW: { status: 404, when: 'The app has no chat window of this id.' },
  WINDOW_DAMAGED: {
    status: 500,
    when: 'The transcript of a chat window cannot be read; the message says what is in its place. Delete the window.',
  },
  UNKNOWN_TURN: { status: 404, when: 'The conversation has no turn of this id.' },
  RUN_ABORTED: { status: 500, when: 'The run or turn was cancelled, or the gateway stopped before it had ended.' },
  INVALID_MIGRATION: {
    status: 400,
    when: 'A migration has a bad name or number, forbidden statements, or changed after it ran. If its number was published meanwhile, `files` names both.',
  },
  MIGRATION_FAILED: {
    status: 422,
    when: 'A migration failed; it was rolled back and the previous version still serves. `path` is its file, `migrations/<file>`.',
  },
  INVALID_ARCHIVE: { status: 400, when: 'The upload is no archive that the gateway reads, or it is truncated.' },
  ARCHIVE_ENTRY_TYPE: {
    status: 400,
    when: 'The archive has a link, device or pipe; only files and folders are allowed.',
  },
  ARCHIVE_PATH: { status: 400, when: 'The archive has a name that is absolute, escapes, is too long, or collides.' },
  ARCHIVE_EXTENSION: { status: 400, when: 'The archive has a file of a type that apps may not contain.' },
  ARCHIVE_TOO_LARGE: {
    status: 413,
    when: 'The archive is over a limit: total size, size of a file, entries, or elements of a page.',
  },
  INVALID_HANDLER: {
    status: 400,
    when: 'A handler does not parse, or breaks a rule; `issues` lists file, line, column and rule of every finding.',
  },
  INVALID_PAGE: {
    status: 400,
    when: 'A page with an `entry` cannot be built; `issues` lists file, line and column of every finding.',
  },
  NO_GIT_STORE: { status: 409, when: 'Drafts and publishing need the git store: `svc convert --store git`.' },
  UNKNOWN_SESSION: { status: 404, when: 'There is no open workspace of this id.' },
  UNKNOWN_CONVERSATION: { status: 404, when: 'The app has no conversation of this id.' },
  UNKNOWN_BLOB: { status: 404, when: 'The app has no file of this sha256.' },
  UNKNOWN_SECRET: { status: 404, when: 'The app has no secret of this name.' },
  SECRET_UNREADABLE: {
    status: 500,
    when: 'The value of a secret cannot be decrypted with `secrets.key`, or a file of the secrets is damaged; the message says what to do.',
  },
  UNKNOWN_TOKEN: { status: 404, when: 'There is no token for programs of this id.' },
  UNKNOWN_PERSON: { status: 404, when: 'The gateway has no person of this id.' },
  UNKNOWN_GROUP: { status: 404, when: 'The gateway has no group of this id.' },
  UNKNOWN_SHARE: { status: 404, when: 'The app has no share of this id.' },
  UNKNOWN_INVITATION: {
    status: 404,
    when: 'There is no invitation of this id or code: it was used, was withdrawn or has expired.',
  },
  LINK_ENDED: { status: 403, when: 'The link to an app was ended, has expired, or was not copied whole.' },
  UNKNOWN_PASSKEY: { status: 404, when: 'The person has no passkey of this id.' },
  UNKNOWN_TEMPLATE: { status: 404, when: 'The gateway has no template of this id.' },
  TEMPLATE_FAILED: {
    status: 502,
    when: 'A template of a remote catalog cannot be fetched, or does not match its checksum.',
  },
  FETCH_FAILED: { status: 502, when: 'What an address of the web was to give cannot be fetched.' },
  SESSION_DAMAGED: {
    status: 500,
    when: 'The record of a workspace cannot be read; its files are still in its worktree. Close the workspace.',
  },
  PRECONDITION_FAILED: { status: 412, when: 'The file has changed since the ETag in `If-Match`; read it again.' },
  NO_CHANGES: { status: 409, when: 'The workspace has no changes to the app.' },
  MERGE_CONFLICT: {
    status: 409,
    when: 'The workspace and a later publication change the same lines of `files`, or over 5,000 lines of one file; or marks of an update are left (`path` names the first). The workspace is unchanged.',
  },
  STORE_DAMAGED: {
    status: 500,
    when: 'An object of the git repository, the files of a version, the settings of an app, or a database of the gateway are missing or damaged; the message names them. Live versions keep serving. 503 for the data of an app.',
  },
  UNKNOWN_TRASH: { status: 404, when: 'The trash has no removed app of this id.' },
  WOULD_REPLACE: {
    status: 409,
    when: 'Another version is live than the one that `ifLive` names; nothing was changed. The message says which, since when, and by whom.',
  },
  VERSION_ACTIVE: { status: 409, when: 'The active version cannot be deleted.' },
  BACKUP_TOO_LARGE: { status: 413, when: 'The backup exceeds the limits of a backup.' },
  INVALID_BACKUP: { status: 400, when: 'The backup is incomplete or changed; `path` names the entry.' },
  BACKUP_FOLDER: {
    status: 409,
    when: 'The folder for backups on schedule cannot be used; the message says what to do.',
  },
  DATA_FORMAT: {
    status: 500,
    when: 'The data directory, or a backup, was written by a newer release, or could not be moved to the format of this one.',
  },
  RESTORE_TARGET: { status: 409, when: 'The target of a restore is not a missing or empty directory.' },
  STORAGE_FULL: { status: 507, when: 'The disk is full; nothing was changed.' },
  STORAGE_UNAVAILABLE: {
    status: 503,
    when: 'In a cluster, the shared database does not answer, or no node can be reached that has this data now.',
  },
  NOT_IN_CLUSTER: {
    status: 409,
    when: 'This is about all apps in one piece, and in a cluster each node has some; the message says what to do instead.',
  },
  NO_CLUSTER: { status: 409, when: 'The gateway is a node of no cluster.' },
  LAST_NODE: { status: 409, when: 'No other node could take what this one has.' },
  QUOTA_EXCEEDED: {
    status: 507,
    when: 'The files of the app would be over `blobQuotaMb` of its manifest, or over 100,000; nothing was stored.',
  },
} as const satisfies Record<string, { status: number; when: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

/**
 * One failing value of an `INVALID_INPUT` answer; `path` is a JSON Pointer. In `INVALID_HANDLER` it is one finding: `path` is
 * the file, `keyword` the rule, `line` and `column` count from 1.
 */
export const ISSUE = object({ path: text, message: text, keyword: text }, { line: count, column: count });
export type InputIssue = Of<typeof ISSUE>;

const DETAILS = { path: text, issues: listOf(ISSUE), files: listOf(text) };
/** Beside code and message. `files` are those of a `MERGE_CONFLICT`, or the two migrations of one number. */
type ErrorDetails = Pick<ErrorBody, keyof typeof DETAILS>;

/** The `error` member of every failed answer, and the payload of every error frame. */
export const ERROR = object({ code: text, message: text }, DETAILS);
export type ErrorBody = Of<typeof ERROR>;

/**
 * An error that may leave the gateway: its message is written for the caller and holds no stack and no absolute path.
 * Anything else that is thrown is logged and answered as `INTERNAL`. `headers` are extra headers of the response.
 */
export class SvcError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly path?: string;
  readonly issues?: InputIssue[];
  readonly files?: string[];
  readonly headers?: Record<string, string>;

  constructor(
    code: ErrorCode,
    message: string,
    extra: ErrorDetails & { status?: number; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = 'SvcError';
    this.code = code;
    this.status = extra.status ?? ERROR_CODES[code].status;
    Object.assign(this, detailsOf(extra));
    if (extra.headers !== undefined) this.headers = extra.headers;
  }

  toBody(): ErrorBody {
    return { code: this.code, message: this.message, ...detailsOf(this) };
  }
}

/** Rebuilds an error that crossed a process or thread as data; codes we do not know become `INTERNAL`. */
export function errorFromBody(body: ErrorBody): SvcError {
  const code: ErrorCode = Object.hasOwn(ERROR_CODES, body.code) ? (body.code as ErrorCode) : 'INTERNAL';
  return new SvcError(code, body.message, detailsOf(body));
}

function detailsOf(from: ErrorDetails): ErrorDetails {
  const names = Object.keys(DETAILS) as (keyof ErrorDetails)[];
  return Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]]])));
}

/** The envelope of every failed answer. */
export function errorEnvelope(error: ErrorBody): { isError: true; error: ErrorBody } {
  return { isError: true, error };
}

/** This node does not have this data, or is about to lose it (specification, "Take-over and release"). */
export function movedError(): SvcError {
  const message = 'This node does not serve this data now, which may move to another one; try again in a moment.';
  return new SvcError('STORAGE_UNAVAILABLE', message, { headers: { 'retry-after': '1' } });
}

const DISK_FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE']);
const DISK_FAULTS = new Set(['EIO', 'EROFS']);

/**
 * Codes by which the writer and the hosts tell the supervisor what is wrong with the data of an app or draft: none of it is there, or
 * SQLite finds it damaged.
 */
export const DATA_LOST = 'DATA_LOST';
export const DATA_DAMAGED = 'DATA_DAMAGED';

/** Whether SQLite says of a file that it is damaged, or no database. An app may let an index of its own go stale: that is no damage. */
export function isDamage(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string' || code === 'SQLITE_CORRUPT_VTAB') return false;
  return code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT');
}

/** Which of the two codes an error stands for; undefined for any other error. */
export function damageCode(error: unknown): typeof DATA_LOST | typeof DATA_DAMAGED | undefined {
  if (isDamage(error)) return DATA_DAMAGED;
  return (error as { code?: unknown } | null)?.code === DATA_LOST ? DATA_LOST : undefined;
}

/** A disk that fails. */
export function isDiskFault(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string') return false;
  return DISK_FAULTS.has(code) || code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CANTOPEN');
}

/** Disk-full in the words of Node or SQLite; `EFBIG` is a file system or a quota that takes no larger file. */
export function isDiskFull(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  // SQLite says no more when a full disk has no room for the index of its log.
  return typeof code === 'string' && DISK_FULL.has(code);
}
