/** Wraps a text that comes in pieces at its words, with an indent before each line. Pure but for `write`. */
import { displayWidth } from './table.ts';

const MIN_WIDTH = 16;

export class TextFlow {
  readonly #write: (text: string) => void;
  readonly #width: number;
  readonly #indent: string;
  /** Columns of this line that are used, without the indent. */
  #column = 0;
  /** A word whose end may not have come yet, and the spaces before it. */
  #word = '';
  #spaces = '';

  /** `write` gets text without line ends, and `\n` alone. Where `columns` is infinite, the text passes unchanged. */
  constructor(write: (text: string) => void, columns: number, indent: string) {
    this.#write = write;
    this.#indent = Number.isFinite(columns) ? indent : '';
    // The last column stays free: some terminals wrap when it is written.
    this.#width = Math.max(MIN_WIDTH, columns - indent.length - 1);
  }

  push(text: string): void {
    for (const part of text.split(/(\r?\n|[ \t]+)/)) {
      if (part.endsWith('\n')) this.#endLine();
      else if (/^[ \t]/.test(part)) {
        this.#place();
        this.#spaces += part.replaceAll('\t', '  ');
      } else this.#word += part;
    }
    // A pipe needs no whole words, and a word longer than a line is not collected to its end.
    if (this.#width === Number.POSITIVE_INFINITY || displayWidth(this.#word) > this.#width) this.#place();
  }

  /** Writes what is left, and ends the line that was begun. */
  finish(): void {
    this.#place();
    if (this.#column > 0) this.#endLine();
    this.#spaces = '';
  }

  #place(): void {
    let word = this.#word;
    if (word === '') return;
    this.#word = '';
    if (this.#column > 0 && this.#column + this.#spaces.length + displayWidth(word) > this.#width) this.#endLine();
    for (;;) {
      if (this.#column === 0) this.#write(this.#indent);
      const spaces = this.#spaces.slice(0, this.#width - 1);
      const piece = cut(word, this.#width - this.#column - spaces.length);
      this.#write(spaces + piece);
      this.#column += spaces.length + displayWidth(piece);
      this.#spaces = '';
      word = word.slice(piece.length);
      if (word === '') return;
      this.#endLine();
    }
  }

  #endLine(): void {
    this.#place();
    this.#write('\n');
    this.#column = 0;
    this.#spaces = '';
  }
}

/** As much of the start as fits, one character at least. */
function cut(text: string, columns: number): string {
  let kept = '';
  for (const character of text) {
    if (kept !== '' && displayWidth(kept + character) > columns) break;
    kept += character;
  }
  return kept;
}
