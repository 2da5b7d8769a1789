/** Splits a program's output into lines of limited length. */

export class LineBuffer {
  readonly #maxBytes: number;
  readonly #lines: string[] = [];
  /** The pieces of the incomplete line. */
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Throws `RangeError` for a line over the limit, complete or not; the lines before it can still be taken. */
  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#lines.push(this.#whole());
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  /** The next line that is whole, without its end. */
  take(): string | undefined {
    return this.#lines.shift();
  }

  /** The rest at the end, as the last line. */
  rest(): string | undefined {
    return this.#bytes === 0 ? undefined : this.#whole();
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) {
      this.#pieces = [];
      throw new RangeError(`A line is longer than ${this.#maxBytes} bytes.`);
    }
    this.#pieces.push(piece);
  }

  #whole(): string {
    const line = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces, this.#bytes);
    this.#pieces = [];
    this.#bytes = 0;
    return line.toString();
  }
}
