/** The subject of the model of kept results: an app, its queries, and a thread that runs them. */
import type { Request } from '../../supervisor/dispatch/request.ts';
import type { CallReply } from '../../supervisor/tree/actor/call.ts';

export const APP = 'app';
export const TABLES = ['a', 'b', 'c'] as const;
export type Table = (typeof TABLES)[number];
/** `view` shows `a` or `b`, as the schema says. */
export type Source = Table | 'view';

export const QUERIES: Record<string, { sources: Source[]; keep: boolean; caller: boolean }> = {
  one: { sources: ['a'], keep: true, caller: false },
  other: { sources: ['b'], keep: true, caller: false },
  both: { sources: ['a', 'c'], keep: true, caller: false },
  view: { sources: ['view'], keep: true, caller: false },
  unsteady: { sources: ['b'], keep: false, caller: false },
  personal: { sources: ['c'], keep: true, caller: true },
};

/** By table, and for the schema: the number of the commit that wrote it last. */
export type Seen = Record<string, number>;
export type Answer = { seen: Seen; version: string; caller: string | null };

/** A query that runs in a thread. */
export type Work = {
  query: string;
  sources: Source[];
  caller: string;
  seen: Seen;
  /** The tables that it reports as read; null for any. */
  tables: Set<string>;
  schema: number | undefined;
  reply: CallReply;
  request: Request;
  started: boolean;
};
type Message = { kind: 'dispatch'; work: Work } | { kind: 'schemaChanged' };

export class Thread {
  readonly version: string;
  readonly inbox: Message[] = [];
  readonly works: Work[] = [];
  readonly outbox: Work[] = [];
  /** The table behind the view, after it was looked up. */
  known: Table | null = null;
  told = -1;

  constructor(version: string) {
    this.version = version;
  }
}

/** The newer of each table. */
export function newest(one: Seen, other: Seen): Seen {
  const all = { ...one };
  for (const [table, commit] of Object.entries(other)) all[table] = Math.max(all[table] ?? 0, commit);
  return all;
}
