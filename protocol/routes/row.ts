/**
 * Declares routes as rows: what each needs, takes, answers and refuses. From the rows come the checks of requests, the HTTP
 * reference, the OpenAPI document and the types of clients.
 */
import type { ErrorCode } from '../errors.ts';
import type { Of, Schema } from '../shapes/schema.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * What a request needs. Each but `admin` is about one app. `page` is its page and files, `read` its descriptions and queries,
 * `write` its actions, `stream` its change stream. `settings` is storing its settings, and `chat` talking with an agent about
 * its data. `manage` is the rest: code, versions, logs, runs, SQL. `make` is a new app, blank or from a template; its app is
 * null where the id is chosen later.
 */
export type Capability = 'page' | 'read' | 'write' | 'stream' | 'settings' | 'chat' | 'manage' | 'make' | 'admin';

/**
 * For an app that the address does not name: that of the member or parameter `of`, or, where the row has none of this name, what
 * `of` says, which the handler asks for itself. `without` is needed where none is named, by default `right` for no app.
 */
export type NeedsOf = { readonly right: Capability; readonly of: string; readonly without?: Capability };

/**
 * What the caller must be allowed: a capability for the app that `:app` or `:id` names, or for its draft in the workspace `:sid`
 * below `/svc/_draft/`. `anyone`: no caller is looked for. `account`: a person at the console or an owner, for what is theirs. A session cookie alone reaches `page` and `anyone`; everything else
 * needs the page key too.
 */
export type RowNeeds = Capability | 'anyone' | 'account' | NeedsOf;

/** Bytes, or text that is no JSON. `says` completes "Sends" or "Answers". */
export type Content = { readonly media: string; readonly says: string };

/** `json` are what it answers as JSON; without it and without `media` the answer is empty. */
export type RowAnswer = {
  /** 200 unless it says another. */
  readonly status?: number;
  readonly json?: Schema;
  readonly media?: string;
  /** The data of the events that it sends, by their names: of a stream, or where it may answer with one in place of `json`. */
  readonly events?: Readonly<Record<string, Schema>>;
  /** A sentence, or several: what the schema does not say. */
  readonly says?: string;
  /** Other statuses, with what they mean. */
  readonly also?: Readonly<Record<number, string>>;
  /** Headers of the answer that a client needs, with what they hold. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** Codes besides those that every route can answer, with what they mean here where their own text does not say it. */
export type RowErrors = Readonly<Partial<Record<ErrorCode, string>>>;

export type RouteRow = {
  readonly method: Method;
  /** Segments, `:name` for a parameter, `*` at the end for the rest (which may be empty). */
  readonly path: string;
  readonly needs: RowNeeds;
  /** The heading of its section in the reference: "Make a token". */
  readonly title: string;
  /** One sentence or a few, in Markdown. */
  readonly does: string;
  /** What the parameters of the path are, where `PARAMETERS` (`reference.ts`) does not say it. */
  readonly params?: Readonly<Record<string, string>>;
  /** The parameters of the query string: an object of texts and integers. */
  readonly query?: Schema;
  /** Headers of the request that it reads, in lower case, with what they hold. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON object, or bytes. */
  readonly body?: Schema | Content;
  readonly answer: RowAnswer;
  readonly errors?: RowErrors;
  /** It answers when a run has ended: one that failed with its own error, of any code, status 500, and with `runId` beside it. */
  readonly runs?: true;
  /** The JSON of an answer. */
  readonly example?: unknown;
  /** It also exists below `/svc/_draft/:sid`; a text says what is different there. */
  readonly drafts?: true | string;
  /**
   * What visitors without a token may use of it: `page`, where the app's page is public; `tool`, which the handler checks
   * itself.
   */
  readonly visitors?: 'page' | 'tool';
  /** Answers with a file that browsers load by themselves: its address may be signed in place of the page key. */
  readonly isFile?: true;
};

/** The rows of a subject, and the page of the reference about them. */
export type Resource<R extends RouteRow = RouteRow> = {
  readonly name: string;
  /** The page is `docs/http-<page>.md`. */
  readonly page: string;
  /** Markdown before the routes. */
  readonly about: string;
  readonly rows: readonly R[];
};

/** Keeps the literal types of a row. */
export function row<const R extends RouteRow>(declared: R): R {
  return declared;
}

/** Where a route is: its path, and with `drafts` that below `/svc/_draft/:sid`. */
export function pathsOf({ path, drafts }: RouteRow): string[] {
  return drafts === undefined ? [path] : [path, path.replace('/svc/', '/svc/_draft/:sid/')];
}

/** Keeps the types of the rows of a resource. */
export function resource<R extends RouteRow>(declared: Resource<R>): Resource<R> {
  return declared;
}

/** What the rest of a path and each `:name` are called. */
type NamesIn<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? NameOf<Segment> | NamesIn<Rest>
  : NameOf<Path>;
type NameOf<Segment extends string> = Segment extends `:${infer Name}` ? Name : Segment extends '*' ? '*' : never;

export type ParamsOf<R extends RouteRow> = { readonly [Name in NamesIn<R['path']>]: string };
export type QueryOf<R extends RouteRow> = R extends { query: infer S extends Schema } ? Of<S> : Record<never, never>;
export type BodyOf<R extends RouteRow> = R extends { body: { media: string } }
  ? Uint8Array
  : R extends { body: infer S extends Schema }
    ? Of<S>
    : undefined;
/** What a client gets. */
export type AnswerOf<R extends RouteRow> = R['answer'] extends { json: infer S extends Schema } ? Of<S> : undefined;
/** What may be given for it: the same, which may be read-only and have members that are undefined. */
export type Given<T> = T extends readonly (infer Item)[]
  ? readonly Given<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Given<T[Key]> | (undefined extends T[Key] ? undefined : never) }
    : T;
