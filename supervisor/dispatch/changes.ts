/** Sends change streams: numbers each app's events, keeps the latest for replay, and fans them out (decisions, section 4). */
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, EventReaders } from '../http/event-streams.ts';

/** One table changed. `action` is the tool that did it. */
export type Change = { table: string; action: string; source: 'handler' | 'agent' | 'external' | 'automation' };

/**
 * `tables` limits the events to those tables; `lastEventId` is the header of that name; `stale` says that the reader shows what is no
 * longer served.
 */
export type SubscribeOptions = { tables?: string[]; lastEventId?: string; stale?: boolean };

/** Is told that another version of the app, or of the draft, is there (`reload`), or that it is gone, or the gateway stops (`closed`). */
type VersionWatcher = (what: 'reload' | 'closed') => void;

/** The events of an app that one reader gets. */
export type AttachedChanges = {
  /** Number of the latest event. */
  last(): number;
  caughtUp(): void;
  detach(): void;
};

type Subscriber = { readonly reader: EventReader; readonly tables: ReadonlySet<string> | undefined };

type AppChanges = { readonly ring: ChangeRing<ChangeEvent>; readonly subscribers: Set<Subscriber> };

const EVENT_ID = /^\d{1,16}$/;

export class ChangeStreams {
  readonly #now: () => number;
  /** In order of their last event, so that the first is the one that has been quiet longest. */
  readonly #apps = new Map<string, AppChanges>();
  readonly #watchers = new Map<string, Set<VersionWatcher>>();
  /** Shared with other event streams, so that their limits are those of the gateway. */
  readonly readers: EventReaders;
  #ringBytes = 0;

  /** `now` gives milliseconds since the epoch. */
  constructor({
    now = Date.now,
    heartbeatMs = LIMITS.changeHeartbeatMs,
  }: { now?: () => number; heartbeatMs?: number } = {}) {
    this.#now = now;
    this.readers = new EventReaders(heartbeatMs);
  }

  get subscribers(): number {
    return this.readers.count;
  }

  /** Change streams of an app that are open. */
  subscribersOf(app: string): number {
    return this.#apps.get(app)?.subscribers.size ?? 0;
  }

  /** Apps and drafts that have events or subscribers. */
  get size(): number {
    return this.#apps.size;
  }

  /** Bytes of all events kept for replay. */
  get ringBytes(): number {
    return this.#ringBytes;
  }

  /** Call it after the commit, before the answer of the call that made the change. */
  emit(app: string, change: Change): void {
    const changes = this.#changesOf(app);
    const { ring } = changes;
    const { table, action, source } = change;
    const bytesKept = EVENT_BYTES + 2 * (app.length + 2 * table.length + action.length);
    // A spread would cost every write 5 us: what it copies and what follows lie in two pieces of memory.
    const event = { app, table, action, source, seq: ring.last + 1, ts: this.#now(), bytes: bytesKept };
    this.#ringBytes -= ring.bytes;
    ring.append(event);
    this.#ringBytes += ring.bytes;
    this.#apps.delete(app);
    this.#apps.set(app, changes);
    if (this.#ringBytes > LIMITS.changeRingsBytes) this.#trim();

    let bytes: Buffer | undefined;
    for (const { reader, tables } of changes.subscribers) {
      if (tables !== undefined && !tables.has(change.table)) continue;
      bytes ??= changeEvent(event);
      reader.deliver(bytes);
    }
  }

  /**
   * Tells every subscriber, of any tables, to fetch everything again: something unknown may have changed. The event takes a
   * number, so that disconnected subscribers find a gap.
   */
  reset(app: string): void {
    const { ring, subscribers } = this.#changesOf(app);
    this.#ringBytes -= ring.bytes;
    ring.skip();
    const bytes = resetEvent(app, ring.last, this.#now());
    for (const { reader } of subscribers) reader.deliver(bytes);
  }

  /** Announces another version to the pages of an app or draft. The event takes no number: it is never replayed. */
  reload(app: string): void {
    this.#notify(app, 'reload');
    this.#tell(app, reloadEvent(app, this.#now()));
  }

  /** Tells the pages of a draft what went wrong in its code. It takes no number either. */
  fault(app: string, fault: object): void {
    this.#tell(app, Buffer.from(`event: fault\ndata: ${JSON.stringify(fault)}\n\n`));
  }

  /** Answers what ends it. */
  watch(app: string, watcher: VersionWatcher): () => void {
    let watchers = this.#watchers.get(app);
    if (!watchers) {
      watchers = new Set();
      this.#watchers.set(app, watchers);
    }
    const all = watchers.add(watcher);
    return () => {
      if (all.delete(watcher) && all.size === 0) this.#watchers.delete(app);
    };
  }

  /** Whether the app has subscribers. */
  watched(app: string): boolean {
    return (this.#apps.get(app)?.subscribers.size ?? 0) > 0 || this.#watchers.has(app);
  }

  /** Answers `exchange` with the app's stream. Throws `OVERLOADED` when too many are open. The app must exist. */
  subscribe(app: string, exchange: Exchange, options: SubscribeOptions = {}): void {
    let attached: AttachedChanges | null = null;
    const reader = this.readers.open(exchange, {
      gone: () => attached?.detach(),
      caughtUp: () => attached?.caughtUp(),
    });
    if (reader) attached = this.attach(app, reader, options);
  }

  /** Has the app's events written to a reader, from now on and after its `Last-Event-ID`. */
  attach(app: string, reader: EventReader, options: SubscribeOptions): AttachedChanges {
    const { ring, subscribers } = this.#changesOf(app);
    const tables = options.tables === undefined || options.tables.length === 0 ? undefined : new Set(options.tables);
    const subscriber: Subscriber = { reader, tables };
    subscribers.add(subscriber);

    const { lastEventId, stale } = options;
    const missed = lastEventId ? missedEvents(ring, lastEventId, tables, this.readers.backlogBytes) : [];
    // The id is for a client that loses its connection before the first event: it can then say where it was. Replayed events
    // have their own ids, so a connection that ends during the replay resumes there.
    const id = missed?.length === 0 ? `id: ${ring.last}\n` : '';
    const opening = Buffer.from(`retry: ${LIMITS.changeRetryMs}\n${id}: changes of ${appOfKey(app)}\n\n`);
    const behind = stale ? [reloadEvent(app, this.#now())] : [];
    reader.write(Buffer.concat([opening, ...(missed ?? [resetEvent(app, ring.last, this.#now())]), ...behind]));
    return {
      last: () => ring.last,
      // It missed something: one `reset` instead of all of it.
      caughtUp: () => reader.write(resetEvent(app, ring.last, this.#now())),
      detach: () => subscribers.delete(subscriber),
    };
  }

  /** Ends the app's streams and forgets its events: it was deleted. */
  closeApp(app: string): void {
    this.#notify(app, 'closed');
    const changes = this.#apps.get(app);
    if (!changes) return;
    this.#apps.delete(app);
    this.#ringBytes -= changes.ring.bytes;
    for (const { reader } of changes.subscribers) reader.end();
    changes.subscribers.clear();
  }

  /** Ends every stream and the heartbeat. */
  closeAll(): void {
    this.readers.stop();
    for (const app of new Set([...this.#apps.keys(), ...this.#watchers.keys()])) this.closeApp(app);
  }

  #notify(app: string, what: 'reload' | 'closed'): void {
    for (const watcher of this.#watchers.get(app) ?? []) watcher(what);
  }

  #tell(app: string, bytes: Buffer): void {
    for (const { reader } of this.#apps.get(app)?.subscribers ?? []) reader.deliver(bytes);
  }

  #changesOf(app: string): AppChanges {
    let changes = this.#apps.get(app);
    if (!changes) {
      // Microseconds: more than any app counts in that time, so the numbers also grow over restarts of the daemon.
      changes = { ring: new ChangeRing(this.#now() * 1000, LIMITS.changeRing), subscribers: new Set() };
      this.#apps.set(app, changes);
    }
    return changes;
  }

  /** Makes more room than needed, so that the next event does not trim again. */
  #trim(): void {
    for (const { ring } of this.#apps.values()) {
      if (this.#ringBytes <= LIMITS.changeRingsBytes * 0.9) return;
      this.#ringBytes -= ring.bytes;
      ring.clear();
    }
  }
}

/** The events to replay after `lastEventId`; undefined when some are missing, or they exceed a subscriber's backlog. */
function missedEvents(
  ring: ChangeRing<ChangeEvent>,
  lastEventId: string,
  tables: ReadonlySet<string> | undefined,
  mostBytes: number,
): Buffer[] | undefined {
  if (!EVENT_ID.test(lastEventId)) return undefined;
  const events = ring.since(Number(lastEventId));
  if (!events) return undefined;
  let size = 0;
  const missed: Buffer[] = [];
  for (const change of events) {
    if (tables && !tables.has(change.table)) continue;
    const bytes = changeEvent(change);
    size += bytes.length;
    if (size > mostBytes) return undefined;
    missed.push(bytes);
  }
  return missed;
}

/** Memory of an event without its text. */
const EVENT_BYTES = 160;

/**
 * One change, which is kept. Its text is not: small buffers are pieces of larger ones of Node's, and each would keep up to
 * 8 KiB from being freed.
 */
type ChangeEvent = Change & { app: string; seq: number; ts: number; bytes: number };

function changeEvent({ app, table, action, source, ts, seq }: ChangeEvent): Buffer {
  return event('change', seq, { app: appOfKey(app), table, tables: [table], action, source, ts, seq });
}

function resetEvent(app: string, seq: number, ts: number): Buffer {
  return event('reset', seq, { app: appOfKey(app), ts, seq });
}

function reloadEvent(app: string, ts: number): Buffer {
  return Buffer.from(`event: reload\ndata: ${JSON.stringify({ app: appOfKey(app), ts })}\n\n`);
}

function event(name: string, id: number, data: object): Buffer {
  return Buffer.from(`event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
}

/**
 * Keeps the newest `capacity` events of an app, for replay. Numbers are consecutive, so an event's place follows from its
 * number. The array grows with the events, so that an app with few of them costs little. `bytes` is what an event takes in memory.
 */
export class ChangeRing<T extends { readonly bytes: number }> {
  readonly #capacity: number;
  #entries: T[] = [];
  /** Index of the oldest entry, once the ring is full. */
  #head = 0;
  /** Number of the newest event, kept or not. */
  last: number;
  /** Bytes of all events kept. */
  bytes = 0;

  /** `start` is the number before the first event. */
  constructor(start: number, capacity: number) {
    this.last = start;
    this.#capacity = capacity;
  }

  /** Adds event number `last + 1`. */
  append(entry: T): void {
    this.last += 1;
    this.bytes += entry.bytes;
    if (this.#entries.length < this.#capacity) {
      this.#entries.push(entry);
      return;
    }
    this.bytes -= (this.#entries[this.#head] as T).bytes;
    this.#entries[this.#head] = entry;
    this.#head = (this.#head + 1) % this.#capacity;
  }

  /** Forgets the events, not the number: a reader that has not seen them all finds a gap. */
  clear(): void {
    this.#entries = [];
    this.#head = 0;
    this.bytes = 0;
  }

  /** Takes a number for something that is not kept, and forgets what came before it. */
  skip(): void {
    this.clear();
    this.last += 1;
  }

  /** The events after number `seq`, oldest first; undefined when some of them are gone or `seq` is not one of its numbers. */
  since(seq: number): T[] | undefined {
    const missed = this.last - seq;
    const kept = this.#entries.length;
    if (!(missed >= 0 && missed <= kept)) return undefined;
    const events: T[] = [];
    for (let i = kept - missed; i < kept; i++) events.push(this.#entries[(this.#head + i) % kept] as T);
    return events;
  }
}
