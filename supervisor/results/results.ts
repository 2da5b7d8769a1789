/**
 * Keeps results of queries as bytes by version, query and input, and answers with them while the tables that they read are
 * unchanged (specification, "Kept results"). A kept result is used only if a run now would give the same: each read checks the
 * state of the database, so correctness depends on no message.
 */

import { LIMITS } from '../../protocol/limits.ts';
import { callerKey, type HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import type { CommitHistory, Written } from './commit-history.ts';
import type { Commits } from './commits.ts';
import { ResultStore } from './result-store.ts';

/** What a query read; `keep` when its result depends on these tables only, `caller` when it read the caller. */
export type Reads = { readonly tables: Written; readonly keep: boolean; readonly caller: boolean };

/** A kept result, or a mark that there is one for each caller. */
type Entry = {
  readonly key: string;
  readonly bytes: number;
  readonly body: Buffer | null;
  readonly reads: Reads;
  readonly history: CommitHistory;
  readonly since: number;
};

/** What is known when a run begins. Its result is no older than that. */
export type RunStart = {
  readonly key: string;
  readonly history: CommitHistory;
  readonly since: number;
  readonly schema: number;
  readonly validity: object;
};

/** Queries whose results were not kept lately, and how often they are not to be asked for. */
type Unkept = { times: number; skip: number };

const ENTRY_BYTES = 400;
const TABLE_BYTES = 50;

export class Results {
  readonly #commits: Commits;
  readonly #store: ResultStore<Entry>;
  /** An object for each app. It is replaced when all results of the app are void, kept ones and those of runs under way. */
  readonly #validities = new Map<string, object>();
  readonly #unkept = new Map<string, Unkept>();

  constructor(commits: Commits, store: ResultStore<Entry> = new ResultStore()) {
    this.#commits = commits;
    this.#store = store;
  }

  get bytes(): number {
    return this.#store.bytes;
  }

  /** Whether it is worth while to look for results of a query; `name` is that of app, version and query. */
  isKept(name: string): boolean {
    const unkept = this.#unkept.get(name);
    return unkept === undefined || unkept.times < TRIES || --unkept.skip < 0;
  }

  /** The result under this key, if it still holds. */
  find(app: string, key: string, caller: HandlerCaller): { body: Buffer; reads: Reads } | null {
    const found = this.#store.get(app, key);
    if (found === undefined) return null;
    const history = this.#commits.upToDate(app);
    const entry = found.body === null ? this.#store.get(app, key + suffixOf(caller)) : found;
    if (history === null || entry === undefined || entry.body === null) return null;
    if (entry.history === history && history.unchanged(entry.reads.tables, entry.since))
      return { body: entry.body, reads: entry.reads };
    this.#store.delete(app, entry.key);
    return null;
  }

  /** A run is about to begin whose result may be kept; null where the state of the data is not known. */
  begin(app: string, key: string): RunStart | null {
    const history = this.#commits.upToDate(app);
    if (history === null) return null;
    return { key, history, since: history.now, schema: history.schema, validity: this.#validityOf(app) };
  }

  /** See `CommitHistory.schema`. */
  schemaOf(app: string): number {
    return this.#commits.schemaOf(app);
  }

  /** Whether a run with this start has the same result as one that begins now. */
  isCurrent(app: string, { history, since, validity }: RunStart): boolean {
    return this.#commits.upToDate(app) === history && history.now === since && this.#validities.get(app) === validity;
  }

  /** A run has ended. Keeps the result where it is the same for as long as its tables are. */
  ended(app: string, name: string, from: RunStart, caller: HandlerCaller, body: Uint8Array, reads: Reads): void {
    if (!reads.keep || body.length > LIMITS.resultBytes) {
      this.#leave(name);
      return;
    }
    this.#unkept.delete(name);
    // The run's tables are valid for the schema that its thread knew.
    if (from.history.schema !== from.schema || this.#validities.get(app) !== from.validity) return;
    const { history, since } = from;
    const key = reads.caller ? from.key + suffixOf(caller) : from.key;
    if (reads.caller)
      this.#store.set(app, {
        key: from.key,
        bytes: ENTRY_BYTES + 2 * from.key.length + bytesOf(reads),
        body: null,
        reads,
        history,
        since,
      });
    const bytes = ENTRY_BYTES + 2 * key.length + body.length + bytesOf(reads);
    this.#store.set(app, { key, bytes, body: copyOf(body), reads, history, since });
  }

  /** Drops all results of the app, kept and being made. */
  forget(app: string): void {
    this.#store.clear(app);
    this.#validities.delete(app);
  }

  #validityOf(app: string): object {
    let validity = this.#validities.get(app);
    if (validity === undefined) {
      validity = {};
      this.#validities.set(app, validity);
    }
    return validity;
  }

  #leave(name: string): void {
    const unkept = this.#unkept.get(name) ?? { times: 0, skip: 0 };
    if (this.#unkept.size >= LIMITS.unkeptQueries) this.#unkept.clear();
    unkept.times++;
    unkept.skip = SKIPPED;
    this.#unkept.set(name, unkept);
  }
}

/** After so many runs whose results could not be kept, so many reads of that query are not looked for. */
const TRIES = 3;
const SKIPPED = 100;

/** Copied: a slice of Node's buffer would keep the whole buffer. */
function copyOf(bytes: Uint8Array): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

function bytesOf({ tables }: Reads): number {
  let bytes = 0;
  if (tables !== 'all') for (const name of tables) bytes += TABLE_BYTES + 2 * name.length;
  return bytes;
}

function suffixOf(caller: HandlerCaller): string {
  return `\0${callerKey(caller)}`;
}
