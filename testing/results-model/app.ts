/** The subject of the model of kept results: an app, its queries, and a thread that runs them. */

import type { HandlerCaller, HandlerUser } from '../../protocol/wire/handler-caller.ts';
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

const ANN: HandlerUser = { id: 'p_1', name: 'Ann', role: 'editor' };
/** Each differs from another one in a single thing that a handler sees. */
export const READERS: readonly HandlerCaller[] = [
  { kind: 'admin' },
  { kind: 'guest' },
  { kind: 'person', name: 'Ann', user: ANN },
  { kind: 'person', name: 'Ann', user: { ...ANN, role: 'viewer' } },
  { kind: 'person', name: 'Ann', user: { ...ANN, id: 'p_2' } },
  { kind: 'agent', name: 'codex', user: ANN },
  { kind: 'agent', name: 'codex' },
  { kind: 'token', name: 'codex' },
  { kind: 'token', name: JSON.stringify(ANN) },
];

/** All that a handler sees of who calls. */
export function shownOf({ kind, name, user }: HandlerCaller): string {
  return JSON.stringify([kind, name ?? null, user ?? null]);
}

/** By table, and for the schema: the number of the commit that wrote it last. */
export type Seen = Record<string, number>;
/** `caller` is what was shown of who called, where the query read that. */
export type Answer = { seen: Seen; version: string; caller: string | null };

/** A query that was submitted. Its time runs from `arrivedAt`. */
export type StartedCall = {
  query: string;
  request: Request;
  reply: CallReply;
  arrivedAt: number;
  schema: number | undefined;
};

/** A query that runs in a thread. */
export type Work = {
  call: StartedCall;
  sources: Source[];
  seen: Seen;
  /** The tables that it reports as read; null for any. */
  tables: Set<string>;
  started: boolean;
};
type Message = { kind: 'dispatch'; work: Work } | { kind: 'schemaChanged' };

export class Thread {
  readonly version: string;
  inbox: Message[] = [];
  works: Work[] = [];
  outbox: Work[] = [];
  /** The table behind the view, after it was looked up. */
  known: Table | null = null;
  told = -1;

  constructor(version: string) {
    this.version = version;
  }

  /** The calls that were not answered yet. */
  get unfinished(): StartedCall[] {
    const waiting = this.inbox.flatMap((one) => (one.kind === 'dispatch' ? [one.work] : []));
    return [...this.works, ...this.outbox, ...waiting].map(({ call }) => call);
  }

  isStarted(call: StartedCall): boolean {
    return [...this.works, ...this.outbox].some((work) => work.call === call);
  }

  /** It is never answered. */
  drop(call: StartedCall): void {
    const isOther = (work: Work): boolean => work.call !== call;
    this.works = this.works.filter(isOther);
    this.outbox = this.outbox.filter(isOther);
    this.inbox = this.inbox.filter((one) => one.kind !== 'dispatch' || isOther(one.work));
  }
}

/** The newer of each table. */
export function newest(one: Seen, other: Seen): Seen {
  const all = { ...one };
  for (const [table, commit] of Object.entries(other)) all[table] = Math.max(all[table] ?? 0, commit);
  return all;
}
