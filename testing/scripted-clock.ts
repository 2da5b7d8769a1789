/** A clock, a timer and an event loop that a test moves by hand. For tests. */
import assert from 'node:assert/strict';

export class ScriptedClock {
  now: number;
  /** Timers set so far. */
  timers = 0;
  #timer: { at: number; wake: () => void } | null = null;
  #turns: (() => void)[] = [];
  /** Monotonic time, independent of the clock; timers use it. */
  #passed = 0;

  constructor(now: number | string) {
    this.now = typeof now === 'string' ? Date.parse(now) : now;
  }

  readonly setTimer = (ms: number, wake: () => void): (() => void) => {
    assert.equal(this.#timer, null, 'there is one timer at most');
    assert.ok(ms >= 0 && ms <= 60_000, `a timer waits a minute at most, not ${ms} ms`);
    this.timers++;
    const timer = { at: this.#passed + ms, wake };
    this.#timer = timer;
    return () => {
      if (this.#timer === timer) this.#timer = null;
    };
  };

  readonly yieldTurn = (rest: () => void): void => void this.#turns.push(rest);

  get armed(): boolean {
    return this.#timer !== null;
  }

  get turnsWaiting(): number {
    return this.#turns.length;
  }

  /** One turn of the event loop. */
  turn(): void {
    const turns = this.#turns;
    this.#turns = [];
    for (const rest of turns) rest();
  }

  /** Runs turns until nothing is left to do, promises included. */
  async settle(): Promise<void> {
    do {
      this.turn();
      await new Promise(setImmediate);
    } while (this.#turns.length > 0);
  }

  /** Time passes; every timer fires at its time. */
  async pass(ms: number): Promise<void> {
    const end = this.#passed + ms;
    await this.settle();
    while (this.#timer && this.#timer.at <= end) {
      this.#go(this.#timer.at - this.#passed);
      this.#ring();
      await this.settle();
    }
    this.#go(end - this.#passed);
  }

  /** The machine sleeps: time passes and nothing runs; due timers fire at the end. */
  async sleep(ms: number): Promise<void> {
    this.wakeAfter(ms);
    await this.settle();
  }

  /** The same up to the wake-up: work for later turns waits. */
  wakeAfter(ms: number): void {
    this.#go(ms);
    if (this.#timer && this.#timer.at <= this.#passed) this.#ring();
  }

  #go(ms: number): void {
    this.#passed += ms;
    this.now += ms;
  }

  #ring(): void {
    const { wake } = this.#timer as { wake: () => void };
    this.#timer = null;
    wake();
  }
}
