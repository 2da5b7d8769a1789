/** The events of a turn between who sends them and who reads them, in order. */
type Event = { type: string; [member: string]: unknown };

export class TurnEvents implements AsyncIterable<Event> {
  readonly #events: Event[] = [];
  #over: { error: unknown } | 'ended' | null = null;
  #wake: () => void = () => {};

  push(event: Event): void {
    this.#events.push(event);
    this.#wake();
  }

  end(): void {
    this.#over ??= 'ended';
    this.#wake();
  }

  /** The reader gets what came before, then the error. */
  fail(error: unknown): void {
    this.#over ??= { error };
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) yield event;
      else if (this.#over === 'ended') return;
      else if (this.#over !== null) throw this.#over.error;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}
