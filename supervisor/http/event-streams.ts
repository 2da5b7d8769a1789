/** Readers of event streams: how many there are, what each may have waiting, and the heartbeat that keeps them open. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseHeaders, ResponseStream } from '../edge/edge.ts';

const HEADERS: ResponseHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};
const HEARTBEAT = Buffer.from(':\n\n');

/** `gone`: it reads no more, tell it nothing. `caughtUp`: it was behind and has read what waited for it. */
export type ReaderEvents = { gone(): void; caughtUp(): void };

export class EventReaders {
  readonly #readers = new Map<EventReader, ReaderEvents>();
  readonly #heartbeat: NodeJS.Timeout;
  /** Readers for whom something waits. */
  #waiting = 0;

  constructor(heartbeatMs: number = LIMITS.changeHeartbeatMs) {
    this.#heartbeat = setInterval(() => {
      for (const reader of this.#readers.keys()) reader.deliver(HEARTBEAT);
    }, heartbeatMs).unref();
  }

  /** Streams open now. */
  get count(): number {
    return this.#readers.size;
  }

  /** What one reader may have waiting now. */
  get backlogBytes(): number {
    return Math.min(LIMITS.subscriberBacklogBytes, LIMITS.backlogsBytes / Math.max(1, this.#waiting));
  }

  /**
   * Answers `exchange` with an event stream. Null when there is nobody to tell anything: the client has gone, or asked for
   * the headers only. Throws `OVERLOADED` when too many are open.
   */
  open(exchange: Exchange, on: ReaderEvents): EventReader | null {
    if (exchange.aborted) return null;
    if (exchange.method === 'HEAD') {
      exchange.stream(200, HEADERS).end();
      return null;
    }
    if (this.#readers.size >= LIMITS.subscribers) {
      throw new SvcError('OVERLOADED', 'Too many event streams are open; close some, or try again later.', {
        headers: { 'retry-after': '5' },
      });
    }
    const reader = new EventReader(this, exchange.stream(200, HEADERS), on);
    this.#readers.set(reader, on);
    exchange.onAbort(() => {
      if (this.forget(reader)) on.gone();
    });
    return reader;
  }

  /** Ends every stream that is open now; who still may can open another one. */
  endAll(): void {
    for (const [reader, on] of [...this.#readers]) {
      reader.end();
      on.gone();
    }
  }

  /** Ends the heartbeat; the streams are for their owners to end. */
  stop(): void {
    clearInterval(this.#heartbeat);
  }

  /** For readers only: whether `reader` was still open. */
  forget(reader: EventReader): boolean {
    reader.wait(false);
    return this.#readers.delete(reader);
  }

  /** For readers only. */
  has(reader: EventReader): boolean {
    return this.#readers.has(reader);
  }

  /** For readers only: one more, or one less, has something waiting. */
  addWaiting(by: 1 | -1): void {
    this.#waiting += by;
  }
}

export class EventReader {
  readonly #readers: EventReaders;
  readonly #stream: ResponseStream;
  #behind = false;
  /** Something waits for it to read. */
  #waiting = false;

  constructor(readers: EventReaders, stream: ResponseStream, on: ReaderEvents) {
    this.#readers = readers;
    this.#stream = stream;
    stream.onDrain(() => {
      if (!readers.has(this)) return;
      this.wait(stream.buffered > 0);
      if (!this.#behind || stream.buffered > readers.backlogBytes) return;
      this.#behind = false;
      on.caughtUp();
    });
  }

  /** It did not read: nothing more is delivered to it until it has, and `caughtUp` is told. */
  get behind(): boolean {
    return this.#behind;
  }

  /** Writes, unless the reader is behind, or is from now on; says whether it wrote. */
  deliver(bytes: Buffer): boolean {
    if (this.#behind) return false;
    if (this.#stream.buffered > this.#readers.backlogBytes) {
      this.#behind = true;
      return false;
    }
    this.write(bytes);
    return true;
  }

  /** Writes, whatever waits already. */
  write(bytes: Buffer): void {
    if (!this.#stream.write(bytes)) this.wait(true);
  }

  /** Ends the stream; `gone` is not told. */
  end(): void {
    this.#readers.forget(this);
    this.#stream.end();
  }

  /** For `EventReaders` and itself. */
  wait(waiting: boolean): void {
    if (waiting !== this.#waiting) this.#readers.addWaiting(waiting ? 1 : -1);
    this.#waiting = waiting;
  }
}
