/** Queues the events of a turn between the agents process, which adds them, and one reader, which takes them. */
import type { RunnerEvent } from '../../../protocol/agents/agents.ts';

export class TurnFeed {
  readonly #onTaken: (bytes: number) => void;
  /** `bytes` stands with the last event of those that came together. */
  #waiting: { event: RunnerEvent; bytes: number }[] = [];
  #bytes = 0;
  #isOver = false;
  #left = false;
  #wake: () => void = () => {};

  /** `onTaken` is told when the reader is done with what so many bytes stood for. */
  constructor(onTaken: (bytes: number) => void) {
    this.#onTaken = onTaken;
  }

  /** Bytes that the reader has not taken yet. */
  get waiting(): number {
    return this.#bytes;
  }

  put(events: readonly RunnerEvent[], bytes: number): void {
    if (this.#isOver) return;
    if (this.#left || events.length === 0) {
      this.#onTaken(bytes);
      return;
    }
    for (const [i, event] of events.entries())
      this.#waiting.push({ event, bytes: i === events.length - 1 ? bytes : 0 });
    this.#bytes += bytes;
    this.#wake();
  }

  /** No more comes. */
  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  /** There is no reader any more: all that comes counts as taken. */
  leave(): void {
    this.#left = true;
    if (this.#bytes > 0) this.#onTaken(this.#bytes);
    this.#bytes = 0;
    this.#waiting = [];
  }

  /** To be called once. An event is taken when the next one is asked for. */
  async *events(): AsyncGenerator<RunnerEvent, void, undefined> {
    for (;;) {
      // Its array is read in place: to take the first of many would move all the others.
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const { event, bytes } of waiting) {
        yield event;
        if (this.#left) return;
        this.#bytes -= bytes;
        if (bytes > 0) this.#onTaken(bytes);
      }
      if (this.#waiting.length > 0) continue;
      if (this.#isOver) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
