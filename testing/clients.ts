/** Shared by the clients of a gateway under faults: they run until they are stopped, and count the answers. */
import type { TestGateway } from './gateway.ts';
import { pause } from './waiting.ts';

/** The count of each outcome. */
export class Counts extends Map<string, number> {
  count(name: string, by = 1): void {
    this.set(name, (this.get(name) ?? 0) + by);
  }

  /** `name: count`, separated by commas. */
  list(): string {
    return [...this].map(([name, count]) => `${name}: ${count}`).join(', ') || 'none';
  }
}

/** Counts what went well, and tells who waits for more of it. */
export class Progress {
  #count = 0;
  #waiters: { at: number; resolve: () => void }[] = [];

  step(): void {
    this.#count += 1;
    for (const { at, resolve } of this.#waiters) if (at <= this.#count) resolve();
    this.#waiters = this.#waiters.filter(({ at }) => at > this.#count);
  }

  /** Resolves when so many more went well. */
  more(count = 1): Promise<void> {
    return new Promise((resolve) => this.#waiters.push({ at: this.#count + count, resolve }));
  }
}

export abstract class Client {
  /** Violations, in sentences. */
  readonly violations: string[] = [];
  protected readonly gateway: TestGateway;
  protected running = true;
  #loops: Promise<void>[] = [];

  constructor(gateway: TestGateway) {
    this.gateway = gateway;
  }

  /** Repeats `turn`, with a pause after each, until `stop`; several run concurrently. */
  protected repeat(turn: (n: number) => Promise<unknown>, pauseMs: () => number): void {
    this.running = true;
    const loop = async (): Promise<void> => {
      for (let n = 0; this.running; n++) {
        await turn(n);
        const ms = pauseMs();
        if (ms > 0) await pause(ms);
      }
    };
    this.#loops.push(loop());
  }

  async stop(): Promise<void> {
    this.running = false;
    await Promise.all(this.#loops);
    this.#loops = [];
  }
}
