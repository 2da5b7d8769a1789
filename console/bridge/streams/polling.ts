/**
 * Keeps a page in a host of MCP Apps up to date, which gets no events: asks again what the page follows, and what it has read
 * (specification, "MCP Apps").
 */

type Read = (query: string, input: unknown) => Promise<unknown>;
type Live = {
  next(): { address: string; take(event: { type: string; data: string; lastEventId: string }): void };
};
type GivenResult = { text: string; id: number };

/** How often it asks while the page is seen. */
const EVERY_MS = 5000;
/** Reads of the page that are asked for again: the latest. */
const MOST_READS = 12;

export class Polling {
  readonly #read: Read;
  readonly #live: () => Live;
  readonly #changed: () => void;
  /** Query and input as JSON → the answer as JSON, the latest last. */
  readonly #reads = new Map<string, string>();
  /** The last result of each live query that the page was given, by its part of an address. */
  readonly #results = new Map<string, GivenResult>();
  #latest = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #asking: Promise<void> | null = null;
  #again = false;

  /** `changed` is called when something that the page has read has another answer. */
  constructor(read: Read, live: () => Live, changed: () => void) {
    this.#read = read;
    this.#live = live;
    this.#changed = changed;
  }

  /** A read of the page, which is remembered. */
  async read(query: string, input: unknown): Promise<unknown> {
    const key = JSON.stringify([query, input]);
    const value = await this.#read(query, input);
    this.#reads.delete(key);
    this.#reads.set(key, JSON.stringify(value));
    for (const oldest of this.#reads.keys()) if (this.#reads.size > MOST_READS) this.#reads.delete(oldest);
    return value;
  }

  seen(isSeen: boolean): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (!isSeen) return;
    void this.ask();
    this.#timer = setInterval(() => void this.ask(), EVERY_MS);
  }

  /** Asks for everything now; of what is asked for meanwhile, once more. Never rejects. */
  async ask(): Promise<void> {
    if (this.#asking !== null) {
      this.#again = true;
      return await this.#asking;
    }
    this.#asking = this.#askUntilQuiet();
    await this.#asking;
  }

  async #askUntilQuiet(): Promise<void> {
    do {
      this.#again = false;
      await Promise.all([this.#askLive(), this.#askRead()]);
    } while (this.#again);
    this.#asking = null;
  }

  async #askLive(): Promise<void> {
    const { address, take } = this.#live().next();
    const parts = new URLSearchParams(address);
    const inputs = parts.getAll('input');
    const asked = parts.getAll('query').map(async (query, index) => {
      const part = JSON.stringify([query, inputs[index]]);
      const { type, said } = await this.#read(query, JSON.parse(inputs[index] ?? '{}')).then(
        (data) => ({ type: 'data', said: { data } }),
        ({ code, message, path, issues }) => ({ type: 'error', said: { error: { code, message, path, issues } } }),
      );
      const text = JSON.stringify(said);
      const before = this.#results.get(part);
      const result = before?.text === text ? before : { text, id: ++this.#latest };
      this.#results.set(part, result);
      // Where it stands says which query it is.
      const lastEventId = `${'.'.repeat(index + 1)}${result.id}`;
      take({ type, data: JSON.stringify({ index, ...said }), lastEventId });
    });
    await Promise.all(asked);
  }

  async #askRead(): Promise<void> {
    const asked = [...this.#reads].map(async ([key, text]) => {
      const [query, input] = JSON.parse(key) as [string, unknown];
      const now = await this.#read(query, input).then(JSON.stringify, () => text);
      // The page may have read it itself meanwhile.
      if (now === text || this.#reads.get(key) !== text) return false;
      this.#reads.set(key, now);
      return true;
    });
    if ((await Promise.all(asked)).includes(true)) this.#changed();
  }
}
