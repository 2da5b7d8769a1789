/** Streams an answer on uWebSockets.js, with back-pressure. */
import type { HttpResponse } from 'uWebSockets.js';
import type { ResponseStream } from './edge.ts';
import { ReaderWatch } from './reader-watch.ts';

/** The size of slices into which larger chunks are cut. So little of them waits in the socket, where it cannot be counted. */
const SLICE_BYTES = 64 * 1024;

/**
 * An answer in parts. The socket keeps what it cannot send of a slice, and the slices after it wait here. How much the socket
 * keeps cannot be asked, so `buffered` counts its last slice whole until the socket is writable again.
 */
export class UwsStream implements ResponseStream {
  readonly #res: HttpResponse;
  /** The announced length. It is null for an answer in chunks. */
  readonly #length: number | null;
  readonly #onEnd: () => void;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #inSocket = 0;
  #ending = false;
  #closed = false;
  #onDrain: (() => void) | null = null;
  /**
   * The watch, which runs while something waits. The native code would end such a connection after some 10 s. A look restarts
   * its timer.
   */
  #watch: ReaderWatch | null = null;

  /**
   * `res` has its status and headers. `onEnd` runs when the answer is complete, and where there is no length right before that.
   */
  constructor(res: HttpResponse, length: number | null, onEnd: () => void) {
    this.#res = res;
    this.#length = length;
    this.#onEnd = onEnd;
    res.onWritable(() => this.#writable());
  }

  get buffered(): number {
    return this.#waitingBytes + this.#inSocket;
  }

  write(chunk: string | Buffer): boolean {
    if (this.#closed || this.#ending || chunk.length === 0) return true;
    if (this.#length === null && this.#inSocket === 0 && chunk.length <= SLICE_BYTES) return this.#push(chunk);
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) this.#waiting.push(bytes.subarray(at, at + SLICE_BYTES));
    this.#waitingBytes += bytes.length;
    this.#pump();
    return this.#inSocket === 0;
  }

  onDrain(callback: () => void): void {
    this.#onDrain = callback;
  }

  end(): void {
    this.#ending = true;
    if (this.#waiting.length === 0) this.#finish();
  }

  cutOff(): void {
    if (!this.#closed) this.#res.close();
  }

  /** Ends the stream after an abort, when nothing may touch `res` any more. */
  abandon(): void {
    this.#stopWatch();
    this.#closed = true;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#inSocket = 0;
  }

  /** Hands one slice to the socket. False: it could not send all of it. */
  #push(slice: string | Buffer): boolean {
    let sent = true;
    this.#res.cork(() => {
      sent = this.#res.write(slice);
    });
    if (!sent) this.#waitForSocket(Buffer.byteLength(slice));
    return sent;
  }

  /**
   * Does the same for an answer with a length, and ends it with its last byte. What the socket does not take of a slice waits
   * here.
   */
  #pushOf(length: number, slice: Buffer): void {
    const res = this.#res;
    const before = res.getWriteOffset();
    let result: [taken: boolean, done: boolean] = [true, false];
    res.cork(() => {
      result = res.tryEnd(slice, length);
    });
    const [isTaken, isDone] = result;
    if (isDone) {
      this.abandon();
      this.#onEnd();
      this.#onDrain?.();
      return;
    }
    if (isTaken) return;
    const rest = slice.subarray(res.getWriteOffset() - before);
    if (rest.length > 0) this.#waiting.unshift(rest);
    this.#waitingBytes += rest.length;
    this.#waitForSocket(1);
  }

  #waitForSocket(bytes: number): void {
    this.#inSocket = bytes;
    this.#watch ??= new ReaderWatch(
      () => this.#wake(),
      () => this.#res.close(),
    );
  }

  /** Has the socket send what it keeps, as far as it can. */
  #flush(): void {
    this.#res.cork(() => {});
  }

  /**
   * Restarts the native time limit, as resuming does. Resuming applies the timeout of the last pause of any socket, so this one
   * is paused right before.
   */
  #wake(): void {
    this.#res.pause();
    this.#res.resume();
  }

  #stopWatch(): void {
    this.#watch?.stop();
    this.#watch = null;
  }

  #pump(): void {
    while (this.#inSocket === 0 && this.#waiting.length > 0 && !this.#closed) {
      const slice = this.#waiting.shift() as Buffer;
      this.#waitingBytes -= slice.length;
      if (this.#length === null) this.#push(slice);
      else this.#pushOf(this.#length, slice);
    }
  }

  #writable(): boolean {
    if (this.#closed) return true;
    // Before this callback, this version sends nothing of what it keeps. Leaving a cork sends it.
    this.#flush();
    const waited = this.#inSocket > 0;
    this.#watch?.progress();
    this.#inSocket = 0;
    this.#pump();
    if (this.#inSocket > 0 || this.#closed) return true;
    this.#stopWatch();
    if (this.#ending) this.#finish();
    else if (waited) this.#onDrain?.();
    return true;
  }

  #finish(): void {
    if (this.#closed) return;
    if (this.#length !== null) {
      // Less was written than announced: otherwise the stream would be closed by now.
      this.#res.close();
      return;
    }
    this.#closed = true;
    this.#stopWatch();
    this.#onEnd();
    this.#res.cork(() => {
      this.#res.end();
    });
  }
}
