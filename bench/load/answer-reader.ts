/** Finds the end of HTTP/1.1 answers on one connection that has one request open at a time; looks at nothing else in them. */

const HEAD_END = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);
const FAILURE_CHARS = 300;

/** Whether a status is not what a scenario asks for. */
export function isFailure(status: number): boolean {
  return status >= 300 && status !== 304;
}

/** For a message: the status, and the body as far as it came with the last read. */
export function failureText(status: number, bytes: Buffer): string {
  const body = bytes.subarray(bytes.indexOf(HEAD_END) + HEAD_END.length).toString();
  return `${status} ${body.slice(0, FAILURE_CHARS)}`;
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
