/** Finds the end of HTTP/1.1 answers on one connection with one request at a time, and counts what a load was answered. */

const HEAD_END = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);
const FAILURE_CHARS = 300;

/** What a load has counted so far, as `LoadResult` says. */
export class Tally {
  readonly latencies: number[] = [];
  readonly delivery: number[] = [];
  requests = 0;
  events = 0;
  failed = 0;
  firstFailure: string | null = null;

  /** Counts an answer; whether it is what a scenario asks for. Of the first that is not it keeps what came with the last read. */
  isGood(status: number, bytes: Buffer): boolean {
    this.requests++;
    if (status < 300 || status === 304) return true;
    const body = bytes.subarray(bytes.indexOf(HEAD_END) + HEAD_END.length).toString();
    this.failed++;
    this.firstFailure ??= `${status} ${body.slice(0, FAILURE_CHARS)}`;
    return false;
  }
}

export class AnswerReader {
  #head = EMPTY;
  #status = 0;
  /** Bytes of the body that have not come yet; null while the head is not whole. */
  #missing: number | null = null;

  /** Takes what was received; it may be reused after the call. The status once the answer is whole, else 0. */
  push(chunk: Buffer): number {
    if (this.#missing === null) this.#readHead(chunk);
    else this.#missing -= chunk.length;
    if (this.#missing === null || this.#missing > 0) return 0;
    if (this.#missing < 0) throw new Error('The server sent more than the answer it announced.');
    this.#missing = null;
    return this.#status;
  }

  #readHead(chunk: Buffer): void {
    const bytes = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) {
      this.#head = Buffer.from(bytes);
      return;
    }
    this.#head = EMPTY;
    const head = bytes.toString('latin1', 0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    this.#status = Number(head.slice(9, 12));
    if (length === undefined && this.#status !== 304 && this.#status !== 204) {
      throw new Error(`An answer came without a length: ${head.split('\r\n', 1)[0]}`);
    }
    this.#missing = Number(length ?? 0) - (bytes.length - end - HEAD_END.length);
  }
}
