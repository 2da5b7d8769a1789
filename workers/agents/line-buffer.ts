/** Cuts what a program writes into lines, none of which may be longer than a limit. */

export class LineBuffer {
  readonly #maxBytes: number;
  readonly #lines: string[] = [];
  /** The line that is not whole yet, as the pieces it came in. */
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Throws `RangeError` for a line over the limit, whether or not its end has come; those before it can be taken. */
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

  /** What is left at the end, as a line of its own. */
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
