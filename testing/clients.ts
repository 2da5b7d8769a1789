/** Shared by the clients of a gateway under load or faults: they run until they are stopped, and count the answers. */
import type { Answer, TestGateway } from './gateway.ts';
import type { Random } from './random.ts';
import { pause, within } from './waiting.ts';

/** Far above every time limit of the gateway: a call that takes longer hangs. */
export const HANG_MS = 60_000;

/** The code of an error; null where the answer has none. */
export function codeOf({ text }: Answer): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: { code?: unknown } };
    return typeof error?.code === 'string' ? error.code : null;
  } catch {
    return null;
  }
}

/** The status, with the code of an error: `201`, `507 STORAGE_FULL`; `no answer` where the connection ended. */
export function outcomeOf(answer: Answer | null): string {
  if (answer === null) return 'no answer';
  return answer.status < 400 ? String(answer.status) : `${answer.status} ${codeOf(answer)}`;
}

/** Null for a connection that ended; anything else is a fault of the caller. */
function onlyOfConnections(error: unknown): null {
  if (typeof (error as NodeJS.ErrnoException).code !== 'string') throw error;
  return null;
}

/** The count of each outcome, or another sum for each name. */
export class Counts extends Map<string, number> {
  /** Counts one more, or `by` more; how many it makes. */
  count(name: string, by = 1): number {
    const count = (this.get(name) ?? 0) + by;
    this.set(name, count);
    return count;
  }

  /** `name: count`, separated by commas. */
  list(): string {
    return [...this].map(([name, count]) => `${name}: ${count}`).join(', ') || 'none';
  }
}

/** How the violation of a client begins whose turn threw. */
export const CLIENT_FAILED = 'A client failed';

export abstract class Client {
  /** Violations, in sentences. */
  readonly violations: string[] = [];
  protected readonly gateway: TestGateway;
  protected running = true;
  readonly #random: Random | null;
  #loops: Promise<void>[] = [];
  #steps = 0;
  #waiters: { at: number; resolve: () => void }[] = [];

  /** `random` is for those that draw something. */
  constructor(gateway: TestGateway, random: Random | null = null) {
    this.gateway = gateway;
    this.#random = random;
  }

  /** A seed of its own would hide that this client got none. */
  protected get random(): Random {
    if (this.#random === null) throw new Error('This client draws something; give it a Random.');
    return this.#random;
  }

  /**
   * Repeats `turn` until `stop`, with a pause after each: of so many milliseconds, or of a number between two, drawn from `random`.
   * Several run concurrently. One whose turn fails ends: a violation.
   */
  protected repeat(
    turn: (n: number) => Promise<unknown>,
    pauseMs: number | [number, number],
    random = this.#random,
  ): void {
    this.running = true;
    const loop = async (): Promise<void> => {
      // A client that begins in its constructor is whole by then.
      await null;
      for (let n = 0; this.running; n++) {
        await turn(n);
        const ms = typeof pauseMs === 'number' ? pauseMs : (random ?? this.random).between(...pauseMs);
        if (ms > 0) await pause(ms);
      }
    };
    this.#loops.push(loop().catch((error: Error) => void this.violations.push(`${CLIENT_FAILED}: ${error.stack}`)));
  }

  /** Counts something that went well, and ends the waits for it. */
  protected step(): void {
    this.#steps += 1;
    for (const { at, resolve } of this.#waiters) if (at <= this.#steps) resolve();
    this.#waiters = this.#waiters.filter(({ at }) => at > this.#steps);
  }

  /** Resolves after `count` more calls of `step`: the gateway works, or works again. Never for a client that calls no `step`. */
  more(count = 1): Promise<void> {
    return new Promise((resolve) => this.#waiters.push({ at: this.#steps + count, resolve }));
  }

  /** What a call is answered; null when its connection ended, or when it hung, which is a violation. */
  protected async answered<T>(what: string, call: Promise<T>): Promise<T | null> {
    const answer = await within(HANG_MS, call.catch(onlyOfConnections));
    if (answer === 'late') this.violations.push(`${what} hung for ${HANG_MS} ms.`);
    return answer === 'late' ? null : answer;
  }

  /** Tries until the outcome is definite, as a careful client does; null when it never is, which is a violation. */
  protected async definite<T>(what: string, everyMs: number, attempt: () => Promise<T | null>): Promise<T | null> {
    for (const until = performance.now() + HANG_MS; performance.now() < until; await pause(everyMs)) {
      const outcome = await attempt();
      if (outcome !== null) return outcome;
    }
    this.violations.push(`${what} had no definite outcome within ${HANG_MS} ms.`);
    return null;
  }

  async stop(): Promise<void> {
    this.running = false;
    await Promise.all(this.#loops);
    this.#loops = [];
  }
}
