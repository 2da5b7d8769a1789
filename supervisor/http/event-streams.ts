/** Sends event streams: their number, what waits for each client that does not read, and the heartbeat that keeps them open. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Follower, Following, Topic } from '../../protocol/topic.ts';
import { type Asker, type Exchange, PRIVATE, type ResponseHeaders, type ResponseStream } from '../edge/edge.ts';
import { unauthorized } from './access/access.ts';

const HEADERS: ResponseHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
  ...PRIVATE,
};
const HEARTBEAT = Buffer.from(':\n\n');

/** How a stream begins: with a comment that says what it is, and with the id of the latest event where the client has it. */
export function opening(what: string, id?: number): Buffer {
  return Buffer.from(`retry: ${LIMITS.changeRetryMs}\n${id === undefined ? '' : `id: ${id}\n`}: ${what}\n\n`);
}

/** The streams that are open, and how many of them have something waiting. */
type Open = { readonly readers: Set<EventReader>; waiting: number };

export class EventReaders {
  readonly #open: Open = { readers: new Set(), waiting: 0 };
  readonly #heartbeat: NodeJS.Timeout;

  constructor(heartbeatMs: number = LIMITS.changeHeartbeatMs) {
    this.#heartbeat = setInterval(() => {
      for (const reader of this.#open.readers) reader.deliver(HEARTBEAT);
    }, heartbeatMs).unref();
  }

  /** Streams open now. */
  get count(): number {
    return this.#open.readers.size;
  }

  /** The current limit of a reader's backlog. */
  get backlogBytes(): number {
    return backlogBytes(this.#open);
  }

  /**
   * Answers `exchange` with an event stream. Null when there is no reader: the client has gone, or asked for the headers only.
   * Throws `OVERLOADED` when too many are open, and `UNAUTHORIZED` when what it was asked with has ended meanwhile: nobody would
   * end it any more.
   */
  open(exchange: Exchange): EventReader | null {
    if (exchange.aborted) return null;
    if (exchange.method === 'HEAD') {
      exchange.stream(200, HEADERS).end();
      return null;
    }
    if (exchange.caller?.ended === true) throw unauthorized('What this was asked with has ended meanwhile.');
    if (this.count >= LIMITS.subscribers) {
      throw new SvcError('OVERLOADED', 'Too many event streams are open; close some, or try again later.', {
        headers: { 'retry-after': '5' },
      });
    }
    const reader = new EventReader(this.#open, exchange.caller, exchange.stream(200, HEADERS));
    exchange.onAbort(() => reader.leave());
    return reader;
  }

  /** Ends the streams of callers whose session, token or turn has ended. */
  endRefused(): void {
    for (const reader of this.#open.readers) if (reader.caller?.ended === true) reader.end();
  }

  /** Ends the heartbeat; the streams are for their owners to end. */
  stop(): void {
    clearInterval(this.#heartbeat);
  }
}

/** A client that reads a stream, and what it follows. */
export class EventReader {
  readonly caller: Asker | null;
  readonly #open: Open;
  readonly #stream: ResponseStream;
  readonly #followed: Following[] = [];
  #wake = (): void => {};
  #behind = false;
  /** Something waits for it to read, and `onDrain` will tell when it has. */
  #waiting = false;

  constructor(open: Open, caller: Asker | null, stream: ResponseStream) {
    this.caller = caller;
    this.#open = open;
    this.#stream = stream;
    open.readers.add(this);
    stream.onDrain(() => {
      if (!this.isOpen) return;
      this.#wait(stream.buffered > 0);
      if (!this.#behind || stream.buffered > backlogBytes(open)) return;
      this.#behind = false;
      for (const { resume } of this.#followed) resume();
      this.#wake();
    });
  }

  get isOpen(): boolean {
    return this.#open.readers.has(this);
  }

  /** `following` resumes when the client was behind and has read its backlog, and stops with the stream. */
  add(following: Following): void {
    if (this.isOpen) this.#followed.push(following);
    else following.stop();
  }

  /** Calls back once, when the stream ends or the client goes. */
  onEnd(stop: () => void): void {
    this.add({ resume: () => {}, stop });
  }

  /** Sends the events of `topic` from now on, or after a number. */
  follow<Event>(
    topic: Topic<Event, Buffer>,
    { wants, gap }: Pick<Follower<Event, Buffer>, 'wants' | 'gap'> = {},
    after?: number,
  ): void {
    const take = (bytes: Buffer): boolean => this.deliver(bytes);
    this.add(topic.follow({ wants, gap, take, ended: () => this.end() }, after));
  }

  /** Writes, unless the client is behind, or is from now on; says whether it wrote. One that has taken all until now takes any. */
  deliver(...parts: Buffer[]): boolean {
    if (this.#behind) return false;
    const bytes = parts.reduce((sum, { length }) => sum + length, this.#stream.buffered);
    if (this.#waiting && bytes > backlogBytes(this.#open)) {
      this.#behind = true;
      return false;
    }
    for (const part of parts) this.write(part);
    return true;
  }

  /** Delivers as soon as the client takes it; resolves with false when it has gone. */
  async send(bytes: Buffer): Promise<boolean> {
    while (this.isOpen && !this.deliver(bytes)) await this.woken();
    return this.isOpen;
  }

  /** Resolves, for the latest caller, when a client that was behind takes more, and when the stream ends. */
  woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Writes regardless of the backlog. */
  write(bytes: Buffer): void {
    if (!this.#stream.write(bytes)) this.#wait(true);
  }

  end(): void {
    if (this.leave()) this.#stream.end();
  }

  /** Counts it as open no more, and stops what it follows; says whether it was. */
  leave(): boolean {
    this.#wait(false);
    if (!this.#open.readers.delete(this)) return false;
    for (const { stop } of this.#followed) stop();
    this.#wake();
    return true;
  }

  #wait(waiting: boolean): void {
    if (waiting !== this.#waiting) this.#open.waiting += waiting ? 1 : -1;
    this.#waiting = waiting;
  }
}

function backlogBytes({ waiting }: Open): number {
  return Math.min(LIMITS.subscriberBacklogBytes, LIMITS.backlogsBytes / Math.max(1, waiting));
}
