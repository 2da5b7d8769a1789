/** Change streams: numbers each app's events, keeps the latest for replay, and fans them out (decisions, section 4). */
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, EventReaders } from '../http/event-streams.ts';
import { ChangeRing } from './change-ring.ts';

/** One table changed. `action` is the tool that did it. */
export type Change = { table: string; action: string; source: 'handler' | 'agent' | 'external' | 'automation' };

/**
 * `tables` limits the events to those tables; `lastEventId` is the header of that name; `stale` says that the reader shows what is no
 * longer served.
 */
export type SubscribeOptions = { tables?: string[]; lastEventId?: string; stale?: boolean };

type Subscriber = { readonly reader: EventReader; readonly tables: ReadonlySet<string> | undefined };

type AppChanges = { readonly ring: ChangeRing<ChangeEvent>; readonly subscribers: Set<Subscriber> };

const EVENT_ID = /^\d{1,16}$/;

export class ChangeStreams {
  readonly #now: () => number;
  /** In order of their last event, so that the first is the one that has been quiet longest. */
  readonly #apps = new Map<string, AppChanges>();
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

  /** Streams open now. */
  get subscribers(): number {
    return this.readers.count;
  }

  /** Apps and drafts about which something is remembered. */
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
    const event = new ChangeEvent(app, change, ring.last + 1, this.#now());
    this.#ringBytes -= ring.bytes;
    ring.append(event);
    this.#ringBytes += ring.bytes;
    this.#apps.delete(app);
    this.#apps.set(app, changes);
    if (this.#ringBytes > LIMITS.changeRingsBytes) this.#trim();

    let bytes: Buffer | undefined;
    for (const { reader, tables } of changes.subscribers) {
      if (tables !== undefined && !tables.has(change.table)) continue;
      bytes ??= event.toBytes();
      reader.deliver(bytes);
    }
  }

  /**
   * Tells every subscriber to fetch everything again, whatever tables it asked for: something may have changed and nobody
   * knows what. It takes a number, so that those who are away find a gap when they return.
   */
  reset(app: string): void {
    const { ring, subscribers } = this.#changesOf(app);
    this.#ringBytes -= ring.bytes;
    ring.skip();
    const bytes = resetEvent(app, ring.last, this.#now());
    for (const { reader } of subscribers) reader.deliver(bytes);
  }

  /** Tells the pages of an app, or of a draft, that there is another version of them. It takes no number: nothing is to be replayed. */
  reload(app: string): void {
    const bytes = reloadEvent(app, this.#now());
    for (const { reader } of this.#apps.get(app)?.subscribers ?? []) reader.deliver(bytes);
  }

  /** Whether anybody follows the app. */
  watched(app: string): boolean {
    return (this.#apps.get(app)?.subscribers.size ?? 0) > 0;
  }

  /** Answers `exchange` with the app's stream. Throws `OVERLOADED` when too many are open. The app must exist. */
  subscribe(app: string, exchange: Exchange, options: SubscribeOptions = {}): void {
    const reader = this.readers.open(exchange, {
      gone: () => subscribers.delete(subscriber),
      // It missed something: one `reset` instead of all of it.
      caughtUp: () => reader?.write(resetEvent(app, ring.last, this.#now())),
    });
    if (!reader) return;
    const { ring, subscribers } = this.#changesOf(app);
    const tables = options.tables === undefined || options.tables.length === 0 ? undefined : new Set(options.tables);
    const subscriber: Subscriber = { reader, tables };
    subscribers.add(subscriber);

    const missed = options.lastEventId
      ? missedEvents(ring, options.lastEventId, tables, this.readers.backlogBytes)
      : [];
    // The id is for a client that loses its connection before the first event: it can then say where it was. What it missed
    // brings ids of its own; a connection that ends in the middle of that is taken up again from there.
    const id =
      missed?.length === 0
        ? `id: ${ring.last}
`
        : '';
    const opening = Buffer.from(`retry: ${LIMITS.changeRetryMs}
${id}: changes of ${appOfKey(app)}

`);
    const behind = options.stale ? [reloadEvent(app, this.#now())] : [];
    reader.write(Buffer.concat([opening, ...(missed ?? [resetEvent(app, ring.last, this.#now())]), ...behind]));
  }

  /** Ends the app's streams and forgets its events: it was deleted. */
  closeApp(app: string): void {
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
    for (const app of [...this.#apps.keys()]) this.closeApp(app);
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

  /** Makes some room to spare, so that the next event need not come here again. */
  #trim(): void {
    for (const { ring } of this.#apps.values()) {
      if (this.#ringBytes <= LIMITS.changeRingsBytes * 0.9) return;
      this.#ringBytes -= ring.bytes;
      ring.clear();
    }
  }
}

/** What to replay after `lastEventId`; undefined when that is not all there, or more than a subscriber may have waiting. */
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
    const bytes = change.toBytes();
    size += bytes.length;
    if (size > mostBytes) return undefined;
    missed.push(bytes);
  }
  return missed;
}

/** Memory of an event besides its text. */
const EVENT_BYTES = 160;

/**
 * One change, which is kept. Its bytes are not: small buffers are pieces of larger ones of Node's, and each would keep up to 8 KiB
 * from being freed.
 */
class ChangeEvent {
  readonly table: string;
  readonly bytes: number;
  readonly #app: string;
  readonly #change: Change;
  readonly #seq: number;
  readonly #ts: number;

  constructor(app: string, change: Change, seq: number, ts: number) {
    this.table = change.table;
    this.bytes = EVENT_BYTES + 2 * (app.length + 2 * change.table.length + change.action.length);
    this.#app = app;
    this.#change = change;
    this.#seq = seq;
    this.#ts = ts;
  }

  toBytes(): Buffer {
    const { table, action, source } = this.#change;
    return event('change', this.#seq, {
      app: appOfKey(this.#app),
      table,
      tables: [table],
      action,
      source,
      ts: this.#ts,
      seq: this.#seq,
    });
  }
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
