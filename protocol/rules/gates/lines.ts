/** Finds places in the text of a module. */

const LINE_BREAK = /\r\n?|[\n\u2028\u2029]/g;
const LINE_END = /[\r\n\u2028\u2029]/;

/** Lines of a text, as JavaScript counts them, from 1. Columns count from 1 in UTF-16 units. */
export class Lines {
  readonly #text: string;
  readonly #starts: number[] = [0];

  constructor(text: string) {
    this.#text = text;
    for (const { index, 0: mark } of text.matchAll(LINE_BREAK)) this.#starts.push(index + mark.length);
  }

  position(offset: number): { line: number; column: number } {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 };
  }

  /** Whether what stands from `start` to `end`, both offsets, has its lines for itself. */
  isAlone(start: number, end: number): boolean {
    let before = start;
    while (before > 0 && isBlank(this.#text[before - 1])) before--;
    let behind = end;
    while (behind < this.#text.length && isBlank(this.#text[behind])) behind++;
    return (
      this.position(before).column === 1 && (behind === this.#text.length || LINE_END.test(this.#text.charAt(behind)))
    );
  }
}

function isBlank(char: string | undefined): boolean {
  return char === ' ' || char === '\t' || char === '\uFEFF';
}
