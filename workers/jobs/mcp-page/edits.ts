/** Replaces parts of a text by others. Offsets are those of the text before; parts do not overlap. */
export class Edits {
  readonly #text: string;
  readonly #parts: { start: number; end: number; text: string }[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  replace(start: number, end: number, text: string): void {
    this.#parts.push({ start, end, text });
  }

  /** Goes before what replaces the part that begins there. */
  insert(at: number, text: string): void {
    this.#parts.push({ start: at, end: at, text });
  }

  /** The text with everything replaced. */
  apply(): string {
    // Of parts at one place those that were given first come first.
    const parts = this.#parts.map((part, order) => ({ ...part, order }));
    parts.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
    let at = 0;
    const pieces: string[] = [];
    for (const { start, end, text } of parts) {
      pieces.push(this.#text.slice(at, start), text);
      at = end;
    }
    return [...pieces, this.#text.slice(at)].join('');
  }
}
