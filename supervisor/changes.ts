/** Change streams: numbers each app's events, keeps the latest for replay, and fans them out (decisions, section 4). */
import { SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { ChangeRing } from './change-ring.ts';
import type { Exchange, ResponseHeaders, ResponseStream } from './edge/edge.ts';

/** One table changed. `action` is the tool that did it. */
export type Change = { table: string; action: string; source: 'handler' | 'agent' | 'external' | 'automation' };

/** `tables` limits the events to those tables; `lastEventId` is the header of that name. */
export type SubscribeOptions = { tables?: string[]; lastEventId?: string };

type Subscriber = {
  readonly stream: ResponseStream;
  readonly tables: ReadonlySet<string> | undefined;
  /** Something waits for it to read. */
  waiting: boolean;
  /** It did not read: nothing more is written to it until it has, and then one `reset`. */
  behind: boolean;
};

type AppChanges = { readonly ring: ChangeRing<ChangeEvent>; readonly subscribers: Set<Subscriber> };

const HEADERS: ResponseHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};
const HEARTBEAT = Buffer.from(':\n\n');
const EVENT_ID = /^\d{1,16}$/;

export class ChangeStreams {
  readonly #now: () => number;
  /** In order of their last event, so that the first is the one that has been quiet longest. */
  readonly #apps = new Map<string, AppChanges>();
  readonly #heartbeat: NodeJS.Timeout;
  #subscribers = 0;
  /** Subscribers for whom something waits. */
  #waiting = 0;
  #ringBytes = 0;

  /** `now` gives milliseconds since the epoch. */
  constructor({
    now = Date.now,
    heartbeatMs = LIMITS.changeHeartbeatMs,
  }: { now?: () => number; heartbeatMs?: number } = {}) {
    this.#now = now;
    this.#heartbeat = setInterval(() => this.#beat(), heartbeatMs).unref();
  }

  /** Streams open now. */
  get subscribers(): number {
    return this.#subscribers;
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

    for (const subscriber of changes.subscribers) {
      if (subscriber.tables === undefined || subscriber.tables.has(change.table)) this.#deliver(subscriber, event.wire);
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
    for (const subscriber of subscribers) this.#deliver(subscriber, bytes);
  }

  /** Answers `exchange` with the app's stream. Throws `OVERLOADED` when too many are open. The app must exist. */
  subscribe(app: string, exchange: Exchange, options: SubscribeOptions = {}): void {
    if (exchange.aborted) return;
    if (exchange.method === 'HEAD') {
      exchange.stream(200, HEADERS).end();
      return;
    }
    if (this.#subscribers >= LIMITS.subscribers) {
      throw new SvcError('OVERLOADED', 'Too many change streams are open; close some, or try again later.', {
        headers: { 'retry-after': '5' },
      });
    }
    const { ring, subscribers } = this.#changesOf(app);
    const tables = options.tables === undefined || options.tables.length === 0 ? undefined : new Set(options.tables);
    const stream = exchange.stream(200, HEADERS);
    const subscriber: Subscriber = { stream, tables, waiting: false, behind: false };
    subscribers.add(subscriber);
    this.#subscribers += 1;
    exchange.onAbort(() => {
      if (subscribers.delete(subscriber)) this.#subscribers -= 1;
      this.#waits(subscriber, false);
    });
    stream.onDrain(() => {
      this.#waits(subscriber, stream.buffered > 0);
      if (!subscriber.behind || stream.buffered > this.#backlogBytes()) return;
      subscriber.behind = false;
      this.#write(subscriber, resetEvent(app, ring.last, this.#now()));
    });

    const missed = options.lastEventId ? missedEvents(ring, options.lastEventId, tables, this.#backlogBytes()) : [];
    // The id is for a client that loses its connection before the first event: it can then say where it was. What it missed
    // brings ids of its own; a connection that ends in the middle of that is taken up again from there.
    const id =
      missed?.length === 0
        ? `id: ${ring.last}
`
        : '';
    const opening = Buffer.from(`retry: ${LIMITS.changeRetryMs}
${id}: changes of ${app}

`);
    this.#write(subscriber, Buffer.concat([opening, ...(missed ?? [resetEvent(app, ring.last, this.#now())])]));
  }

  /** Ends the app's streams and forgets its events: it was deleted. */
  closeApp(app: string): void {
    const changes = this.#apps.get(app);
    if (!changes) return;
    this.#apps.delete(app);
    this.#ringBytes -= changes.ring.bytes;
    this.#subscribers -= changes.subscribers.size;
    const streams = [...changes.subscribers].map((subscriber) => subscriber.stream);
    for (const subscriber of changes.subscribers) this.#waits(subscriber, false);
    changes.subscribers.clear();
    for (const stream of streams) stream.end();
  }

  /** Ends every stream and the heartbeat. */
  closeAll(): void {
    clearInterval(this.#heartbeat);
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

  /** Writes, unless the subscriber does not read: then it is marked, and its drain callback makes up for it. */
  #deliver(subscriber: Subscriber, bytes: Buffer): void {
    if (subscriber.behind) return;
    if (subscriber.stream.buffered > this.#backlogBytes()) subscriber.behind = true;
    else this.#write(subscriber, bytes);
  }

  #write(subscriber: Subscriber, bytes: Buffer): void {
    if (!subscriber.stream.write(bytes)) this.#waits(subscriber, true);
  }

  #waits(subscriber: Subscriber, waiting: boolean): void {
    if (waiting !== subscriber.waiting) this.#waiting += waiting ? 1 : -1;
    subscriber.waiting = waiting;
  }

  /** What one subscriber may have waiting now. */
  #backlogBytes(): number {
    return Math.min(LIMITS.subscriberBacklogBytes, LIMITS.backlogsBytes / Math.max(1, this.#waiting));
  }

  #beat(): void {
    for (const { subscribers } of this.#apps.values()) {
      for (const subscriber of subscribers) this.#deliver(subscriber, HEARTBEAT);
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
  for (const { table, wire } of events) {
    if (tables && !tables.has(table)) continue;
    size += wire.length;
    if (size > mostBytes) return undefined;
    missed.push(wire);
  }
  return missed;
}

/** Memory of an event besides its text. */
const EVENT_BYTES = 160;

/** One change. It is turned into bytes when somebody first wants them, and then kept: most apps are watched by nobody. */
class ChangeEvent {
  readonly table: string;
  readonly bytes: number;
  readonly #app: string;
  readonly #change: Change;
  readonly #seq: number;
  readonly #ts: number;
  #wire: Buffer | null = null;

  constructor(app: string, change: Change, seq: number, ts: number) {
    this.table = change.table;
    this.bytes = EVENT_BYTES + 2 * (app.length + 2 * change.table.length + change.action.length);
    this.#app = app;
    this.#change = change;
    this.#seq = seq;
    this.#ts = ts;
  }

  get wire(): Buffer {
    const { table, action, source } = this.#change;
    this.#wire ??= event('change', this.#seq, {
      app: this.#app,
      table,
      tables: [table],
      action,
      source,
      ts: this.#ts,
      seq: this.#seq,
    });
    return this.#wire;
  }
}

function resetEvent(app: string, seq: number, ts: number): Buffer {
  return event('reset', seq, { app, ts, seq });
}

function event(name: string, id: number, data: object): Buffer {
  return Buffer.from(`event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
}
