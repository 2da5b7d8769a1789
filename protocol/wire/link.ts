/** One connection between two of our processes: frames in, frames out, written once per turn of the event loop. */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { LIMITS } from '../limits.ts';
import { FrameBatch, FrameDecoder } from './codec.ts';
import { type CommitGroups, type Frame, type FrameOf, Kind, type LogGroups, type LogWaits } from './frames.ts';

/** Size of one read, the same as Node's own. */
const READ_BYTES = 64 * 1024;

export type LinkHandlers = {
  onFrame(frame: Frame, link: Link): void;
  /** Called exactly once when the connection ends; with `error` when it did not end cleanly. */
  onClose(error: Error | null, link: Link): void;
};

/** Milliseconds without a frame after which a connection is not in a burst. */
const ALONE_MS = 1;

// App code could replace it.
const now = performance.now.bind(performance);

/** How many pieces this process has received, over all connections. */
let received = 0;

/**
 * Tells the piece apart whose frames are being handled, from all others: what was sent before it came is the past for each of them.
 */
export function receivedPiece(): number {
  return received;
}

export class Link {
  readonly #stream: Duplex;
  readonly #handlers: LinkHandlers;
  readonly #decoder = new FrameDecoder();
  readonly #pending = new FrameBatch();
  #pendingFrames = 0;
  /** Frames of this turn of the event loop; the turn's end is awaited from the first one on. */
  #turnFrames = 0;
  /** The turn before had one frame at most. */
  #quiet = true;
  /** When a frame last left at once, without waiting for the end of its turn. */
  #aloneAt = 0;
  #closed = false;
  #error: Error | null = null;

  constructor(stream: Duplex, handlers: LinkHandlers) {
    this.#stream = stream;
    this.#handlers = handlers;
    stream.on('data', (chunk: Buffer) => this.receive(chunk));
    stream.on('error', (error: Error) => {
      this.#error ??= error;
    });
    stream.on('close', () => this.#finish());
    stream.on('end', () => this.#stream.end());
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Queues a frame. The frames of one turn share a write, up to `LIMITS.linkBatchFrames` and `linkBatchBytes`, so that the peer
   * starts on the first ones early. With little to send, a frame leaves at once. A closed link drops it. Throws `FrameError`
   * when it is too large.
   */
  send(frame: Frame): void {
    if (this.#closed) return;
    this.#pending.add(frame);
    this.#pendingFrames++;
    if (this.#turnFrames === 0 && this.#quiet && now() - this.#aloneAt > ALONE_MS) {
      // Most connections send a frame once in a while; waiting for the end of the turn would cost more than the frame.
      this.#aloneAt = now();
      this.#write();
      return;
    }
    if (this.#turnFrames++ === 0) {
      setImmediate(this.#endTurn);
      if (this.#quiet) this.#write();
    } else if (this.#pendingFrames >= LIMITS.linkBatchFrames || this.#pending.length >= LIMITS.linkBatchBytes)
      this.#write();
  }

  /** Writes what is queued now, so that it comes before what is sent on other connections from here on. */
  flush(): void {
    this.#write();
  }

  /** Queues a frame that leaves with the following frames of this turn. Otherwise as `send`. */
  sendLater(frame: Frame): void {
    if (this.#closed) return;
    this.#pending.add(frame);
    this.#pendingFrames++;
    if (this.#turnFrames++ === 0) setImmediate(this.#endTurn);
    else if (this.#pendingFrames >= LIMITS.linkBatchFrames) this.#write();
  }

  /** Ends the connection; what was queued is written first unless `error` is given. */
  close(error?: Error): void {
    if (error) {
      this.#error ??= error;
      this.#stream.destroy();
      return;
    }
    this.#write();
    this.#stream.end();
  }

  readonly #endTurn = (): void => {
    this.#quiet = this.#turnFrames === 1;
    this.#turnFrames = 0;
    this.#write();
  };

  #write(): void {
    if (this.#closed || this.#pending.length === 0) return;
    this.#pendingFrames = 0;
    this.#stream.write(this.#pending.take());
    if (this.#stream.writableLength > LIMITS.linkBacklogBytes) this.close(new Error('The peer does not read.'));
  }

  /** For a stream whose bytes do not come as `data`. */
  receive(chunk: Buffer): void {
    if (this.#closed) return;
    received++;
    try {
      this.#decoder.push(chunk, (frame) => {
        if (!this.#closed) this.#handlers.onFrame(frame, this);
      });
    } catch (error) {
      this.close(error as Error);
    }
  }

  #finish(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#pending.take();
    this.#handlers.onClose(this.#error, this);
  }
}

/**
 * A connection to the Unix socket of the supervisor or the writer. Frames may be sent at once; they leave after the `hello` with
 * `ticket` and, for the writer, `connectionId`. One that cannot be made is reported through `onClose`. It is read past Node's streams,
 * which cost more than all that we do with a frame.
 */
export function openLink(socketPath: string, ticket: string, handlers: LinkHandlers, connectionId?: number): Link {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const callback = (length: number): boolean => {
    // A copy: Node uses the buffer again, and frames keep parts of it.
    const chunk = Buffer.allocUnsafe(length);
    buffer.copy(chunk, 0, 0, length);
    link.receive(chunk);
    return true;
  };
  const link = new Link(connect({ path: socketPath, onread: { buffer, callback } }), handlers);
  link.send(connectionId === undefined ? [Kind.hello, ticket] : [Kind.hello, ticket, connectionId]);
  return link;
}

/** The answer of a process to ping `n`; `counters` is what it shows of its work in `svc status`, the rest is a writer's. */
export function pong(
  n: number,
  counters: Record<string, number>,
  ofWriter: { groups?: CommitGroups; logged?: LogWaits; logGroups?: LogGroups } = {},
): FrameOf<'pong'> {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  return [Kind.pong, n, { rss, heapUsed, cpuUser: user, cpuSystem: system, counters, ...ofWriter }];
}
