/** Keeps the readers of event streams: their number, their backlogs, and the heartbeat that keeps them open. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Asker, type Exchange, PRIVATE, type ResponseHeaders, type ResponseStream } from '../edge/edge.ts';
import { unauthorized } from './access/access.ts';

const HEADERS: ResponseHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
  ...PRIVATE,
};
const HEARTBEAT = Buffer.from(':\n\n');

/** `gone`: it no longer reads, send it nothing. `caughtUp`: it was behind and has read its backlog. */
export type ReaderEvents = { gone(): void; caughtUp(): void };

/** The readers that are open, and how many of them have something waiting. */
type Open = { readonly readers: Map<EventReader, ReaderEvents>; waiting: number };

export class EventReaders {
  readonly #open: Open = { readers: new Map(), waiting: 0 };
  readonly #heartbeat: NodeJS.Timeout;

  constructor(heartbeatMs: number = LIMITS.changeHeartbeatMs) {
    this.#heartbeat = setInterval(() => {
      for (const reader of this.#open.readers.keys()) reader.deliver(HEARTBEAT);
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
  open(exchange: Exchange, on: ReaderEvents): EventReader | null {
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
    const reader = new EventReader(this.#open, exchange.caller, exchange.stream(200, HEADERS), on);
    exchange.onAbort(() => {
      if (reader.forget()) on.gone();
    });
    return reader;
  }

  /** Ends the streams of callers whose session, token or turn has ended. */
  endRefused(): void {
    for (const [reader, on] of [...this.#open.readers]) {
      if (reader.caller?.ended !== true) continue;
      reader.end();
      on.gone();
    }
  }

  /** Ends the heartbeat; the streams are for their owners to end. */
  stop(): void {
    clearInterval(this.#heartbeat);
  }
}

export class EventReader {
  readonly caller: Asker | null;
  readonly #open: Open;
  readonly #stream: ResponseStream;
  #behind = false;
  /** Something waits for it to read, and `onDrain` will tell when it has. */
  #waiting = false;

  constructor(open: Open, caller: Asker | null, stream: ResponseStream, on: ReaderEvents) {
    this.caller = caller;
    this.#open = open;
    this.#stream = stream;
    open.readers.set(this, on);
    stream.onDrain(() => {
      if (!open.readers.has(this)) return;
      this.#wait(stream.buffered > 0);
      if (!this.#behind || stream.buffered > backlogBytes(open)) return;
      this.#behind = false;
      on.caughtUp();
    });
  }

  /** It did not read: delivers nothing until it has, then calls `caughtUp`. */
  get behind(): boolean {
    return this.#behind;
  }

  /** Writes, unless the reader is behind, or is from now on; says whether it wrote. One that has taken all until now takes any. */
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

  /** Writes regardless of the backlog. */
  write(bytes: Buffer): void {
    if (!this.#stream.write(bytes)) this.#wait(true);
  }

  /** Ends the stream; `gone` is not told. */
  end(): void {
    this.forget();
    this.#stream.end();
  }

  /** Counts it as open no more; says whether it was. */
  forget(): boolean {
    this.#wait(false);
    return this.#open.readers.delete(this);
  }

  #wait(waiting: boolean): void {
    if (waiting !== this.#waiting) this.#open.waiting += waiting ? 1 : -1;
    this.#waiting = waiting;
  }
}

function backlogBytes({ waiting }: Open): number {
  return Math.min(LIMITS.subscriberBacklogBytes, LIMITS.backlogsBytes / Math.max(1, waiting));
}
