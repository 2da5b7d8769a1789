/** Encodes long JSON arrays, reusing the bytes of unchanged entries, and works on many apps in short turns. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';

/** Items whose promises are awaited together. */
const AT_ONCE = 16;

/** Runs `one` for every item, in order, and lets the event loop go on whenever `LIMITS.turnMs` are over. Rejects as `one` does. */
export async function inTurns<T, R>(items: readonly T[], one: (item: T) => R | Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let begun = performance.now();
  for (let at = 0; at < items.length; at += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(one))));
    if (performance.now() - begun < LIMITS.turnMs) continue;
    await nextTurn();
    begun = performance.now();
  }
  return results;
}

/**
 * The bytes of one array whose entries are objects that are replaced and never changed. The bytes of an entry live as long as
 * the entry. A changed entry is a new object, so changes need no report.
 */
export class KeptArray {
  readonly #prefix: string;
  readonly #suffix: string;
  readonly #kept = new WeakMap<object, string>();
  #texts: readonly string[] = [];
  #bytes: Buffer;

  /** `prefix` and `suffix` stand around the array. */
  constructor(prefix = '', suffix = '') {
    this.#prefix = `${prefix}[`;
    this.#suffix = `]${suffix}`;
    this.#bytes = Buffer.from(this.#prefix + this.#suffix);
  }

  /** Leave the bytes unchanged: while the entries stay the same, they are answered again. */
  async bytesOf(entries: readonly object[]): Promise<Buffer> {
    const texts = await inTurns(entries, (entry) => this.#textOf(entry));
    const isSame = texts.length === this.#texts.length && texts.every((text, at) => text === this.#texts[at]);
    if (!isSame) {
      this.#bytes = Buffer.from(this.#prefix + texts.join(',') + this.#suffix);
      this.#texts = texts;
    }
    return this.#bytes;
  }

  #textOf(entry: object): string {
    let text = this.#kept.get(entry);
    if (text === undefined) {
      text = JSON.stringify(entry);
      this.#kept.set(entry, text);
    }
    return text;
  }
}

/** The JSON text of an array of large entries. */
export async function arrayText(entries: readonly unknown[]): Promise<string> {
  return `[${(await inTurns(entries, (entry) => JSON.stringify(entry))).join(',')}]`;
}
