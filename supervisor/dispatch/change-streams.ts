/** Sends change streams: numbers each app's events, keeps the latest for replay, and fans them out (specification, "Change stream"). */
import { eventText } from '../../protocol/http/event-stream.ts';
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Topic } from '../../protocol/topic.ts';
import type { NamedPerson } from '../../protocol/wire/handler-caller.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, EventReaders, opening } from '../http/event-streams.ts';

/** One table changed. `action` is the tool that did it, `by` the person who called it, or whose agent did. */
export type Change = {
  table: string;
  action: string;
  source: 'handler' | 'agent' | 'external' | 'automation';
  by?: NamedPerson | undefined;
};

/**
 * `tables` limits the events to those tables; `lastEventId` is the header of that name; `stale` says that the reader shows what is no
 * longer served.
 */
export type SubscribeOptions = { tables?: string[]; lastEventId?: string; stale?: boolean };

/** Is told that another version of the app, or of the draft, is there (`reload`), or that it is gone, or the gateway stops (`closed`). */
type VersionWatcher = (what: 'reload' | 'closed') => void;

const EVENT_ID = /^\d{1,16}$/;

export class ChangeStreams {
  readonly #now: () => number;
  /** In order of their last event, so that the first is the one that has been quiet longest. */
  readonly #topics = new Map<string, Topic<ChangeEvent, Buffer>>();
  readonly #watchers = new Map<string, Set<VersionWatcher>>();
  /** Shared with other event streams, so that their limits are those of the gateway. */
  readonly readers: EventReaders;
  #keptBytes = 0;

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
    return this.#topics.get(app)?.followers ?? 0;
  }

  /** Apps and drafts that have events or subscribers. */
  get size(): number {
    return this.#topics.size;
  }

  /** Bytes of all events kept for replay. */
  get ringBytes(): number {
    return this.#keptBytes;
  }

  /** Call it after the commit, before the answer of the call that made the change. */
  emit(app: string, change: Change): void {
    const topic = this.#topicOf(app);
    const { table, action, source, by } = change;
    const length =
      app.length + 2 * table.length + action.length + (by === undefined ? 0 : by.id.length + by.name.length);
    const bytes = EVENT_BYTES + 2 * length;
    const before = topic.bytes;
    // A spread would cost every write 5 us: what it copies and what follows lie in two pieces of memory.
    topic.append({ app, table, action, source, by, seq: topic.last + 1, ts: this.#now(), bytes });
    this.#keptBytes += topic.bytes - before;
    this.#topics.delete(app);
    this.#topics.set(app, topic);
    if (this.#keptBytes > LIMITS.changeRingsBytes) this.#trim();
  }

  /**
   * Tells every subscriber, of any tables, to fetch everything again: something unknown may have changed. The event takes a
   * number, so that disconnected subscribers find a gap.
   */
  reset(app: string): void {
    const topic = this.#topicOf(app);
    this.#keptBytes -= topic.bytes;
    topic.skip();
  }

  /** Announces another version to the pages of an app or draft. The event takes no number: it is never replayed. */
  reload(app: string): void {
    this.#notify(app, 'reload');
    this.#topics.get(app)?.announce(reloadEvent(app, this.#now()));
  }

  /** Tells the pages of a draft what went wrong in its code. It takes no number either. */
  fault(app: string, fault: object): void {
    this.#topics.get(app)?.announce(Buffer.from(eventText('fault', JSON.stringify(fault))));
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
    return this.subscribersOf(app) > 0 || this.#watchers.has(app);
  }

  /** Answers `exchange` with the app's stream. Throws `OVERLOADED` when too many are open. The app must exist. */
  subscribe(app: string, exchange: Exchange, options: SubscribeOptions = {}): void {
    const reader = this.readers.open(exchange);
    if (reader) this.attach(app, reader, options);
  }

  /** Has the app's events written to a reader, from now on and after its `Last-Event-ID`. Answers where they are. */
  attach(app: string, reader: EventReader, options: SubscribeOptions): Pick<Topic<ChangeEvent, Buffer>, 'last'> {
    const topic = this.#topicOf(app);
    const tables = new Set(options.tables);
    const wants = tables.size === 0 ? undefined : ({ table }: Change): boolean => tables.has(table);
    const reset = (): Buffer => resetEvent(app, topic.last, this.#now());

    const { lastEventId, stale } = options;
    const missed = lastEventId ? missedEvents(topic, lastEventId, wants, this.readers.backlogBytes) : [];
    // The id is for a client that loses its connection before the first event: it can then say where it was. Replayed events
    // have their own ids, so a connection that ends during the replay resumes there.
    const begins = opening(`changes of ${appOfKey(app)}`, missed?.length === 0 ? topic.last : undefined);
    const behind = stale ? [reloadEvent(app, this.#now())] : [];
    reader.write(Buffer.concat([begins, ...(missed ?? [reset()]), ...behind]));
    reader.follow(topic, { wants, gap: () => reader.deliver(reset()) });
    return topic;
  }

  /** Ends the app's streams and forgets its events: it was deleted. */
  closeApp(app: string): void {
    this.#notify(app, 'closed');
    const topic = this.#topics.get(app);
    if (!topic) return;
    this.#topics.delete(app);
    this.#keptBytes -= topic.bytes;
    topic.close();
  }

  /** Ends every stream and the heartbeat. */
  closeAll(): void {
    this.readers.stop();
    for (const app of new Set([...this.#topics.keys(), ...this.#watchers.keys()])) this.closeApp(app);
  }

  #notify(app: string, what: 'reload' | 'closed'): void {
    for (const watcher of this.#watchers.get(app) ?? []) watcher(what);
  }

  #topicOf(app: string): Topic<ChangeEvent, Buffer> {
    let topic = this.#topics.get(app);
    if (!topic) {
      topic = new Topic({
        // Microseconds: more than any app counts in that time, so the numbers also grow over restarts of the daemon.
        start: this.#now() * 1000,
        keep: LIMITS.changeRing,
        bytesOf: ({ bytes }) => bytes,
        form: changeEvent,
        folds: true,
      });
      this.#topics.set(app, topic);
    }
    return topic;
  }

  /** Makes more room than needed, so that the next event does not trim again. */
  #trim(): void {
    for (const topic of this.#topics.values()) {
      if (this.#keptBytes <= LIMITS.changeRingsBytes * 0.9) return;
      this.#keptBytes -= topic.bytes;
      topic.clear();
    }
  }
}

/** The events to replay after `lastEventId`; undefined when some are missing, or they exceed a subscriber's backlog. */
function missedEvents(
  topic: Topic<ChangeEvent, Buffer>,
  lastEventId: string,
  wants: ((change: Change) => boolean) | undefined,
  mostBytes: number,
): Buffer[] | undefined {
  const events = EVENT_ID.test(lastEventId) ? topic.since(Number(lastEventId)) : undefined;
  const missed: Buffer[] = [];
  let size = 0;
  for (const change of (wants ? events?.filter(wants) : events) ?? []) {
    const bytes = changeEvent(change);
    size += bytes.length;
    if (size > mostBytes) return undefined;
    missed.push(bytes);
  }
  return events && missed;
}

/** Memory of an event without its text. */
const EVENT_BYTES = 200;

/**
 * One change, which is kept. Its text is not: small buffers are pieces of larger ones of Node's, and each would keep up to
 * 8 KiB from being freed.
 */
type ChangeEvent = Change & { app: string; seq: number; ts: number; bytes: number };

function changeEvent({ app, table, action, source, by, ts, seq }: ChangeEvent): Buffer {
  return event('change', seq, { app: appOfKey(app), table, tables: [table], action, source, by, ts, seq });
}

function resetEvent(app: string, seq: number, ts: number): Buffer {
  return event('reset', seq, { app: appOfKey(app), ts, seq });
}

function reloadEvent(app: string, ts: number): Buffer {
  return Buffer.from(eventText('reload', JSON.stringify({ app: appOfKey(app), ts })));
}

function event(name: string, id: number, data: object): Buffer {
  return Buffer.from(eventText(name, JSON.stringify(data), id));
}
