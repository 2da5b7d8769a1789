/**
 * One connection between two of our processes: frames in, frames out, written in one go per turn of the event loop.
 * It opens nothing itself; the stream is given to it.
 */

import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Frame } from '../frames.ts';
import { LIMITS } from '../limits.ts';
import { FrameBatch, FrameDecoder } from './codec.ts';

/** What is read at a time, as much as Node reads by itself. */
const READ_BYTES = 64 * 1024;

export type LinkHandlers = {
  onFrame(frame: Frame, link: Link): void;
  /** Called exactly once, whatever ended the connection; `error` when it did not end cleanly. */
  onClose(error: Error | null, link: Link): void;
};

/** Milliseconds; whoever had nothing to send for so long is not in the middle of a burst. */
const ALONE_MS = 1;

// App code could put its own in its place.
const now = performance.now.bind(performance);

export class Link {
  readonly #stream: Duplex;
  readonly #handlers: LinkHandlers;
  readonly #decoder: FrameDecoder;
  readonly #pending = new FrameBatch();
  #pendingFrames = 0;
  /** Frames of this turn of the event loop; the turn's end is awaited from the first one on. */
  #turnFrames = 0;
  /** The turn before had one frame at most: whoever waits for this one waits for nothing else. */
  #quiet = true;
  /** When a frame last left without a look at what else its turn has to send. */
  #aloneAt = 0;
  #closed = false;
  #error: Error | null = null;

  constructor(stream: Duplex, handlers: LinkHandlers, maxFrameBytes: number = LIMITS.frameBytes) {
    this.#stream = stream;
    this.#handlers = handlers;
    this.#decoder = new FrameDecoder(maxFrameBytes);
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
   * Queues a frame. The frames of one turn leave together, so that a write is shared by many; but not more than
   * `LIMITS.linkBatchFrames` or `linkBatchBytes`, so that the peer starts on the first ones while we work on the others. While there is little
   * to send, a frame leaves at once. A closed link drops it. Throws `FrameError` when it is too large.
   */
  send(frame: Frame): void {
    if (this.#closed) return;
    this.#pending.add(frame);
    this.#pendingFrames++;
    if (this.#turnFrames === 0 && this.#quiet && now() - this.#aloneAt > ALONE_MS) {
      // Most connections have a frame once in a while: to await the turn's end would cost more than the frame.
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
 * A connection to the Unix socket at `socketPath`, read past Node's streams: they cost more than all we do with a frame. One that
 * cannot be made is reported through `onClose`.
 */
export function connectLink(socketPath: string, handlers: LinkHandlers): Link {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const callback = (length: number): boolean => {
    // A copy: the buffer is used again, and what is in a frame may be kept.
    const chunk = Buffer.allocUnsafe(length);
    buffer.copy(chunk, 0, 0, length);
    link.receive(chunk);
    return true;
  };
  const link = new Link(connect({ path: socketPath, onread: { buffer, callback } }), handlers);
  return link;
}
