// Says how far a run of the tests is: one line that changes on a terminal, a line now and then elsewhere.

const EVERY_MS = { terminal: 1000, elsewhere: 60_000 };

export class Progress {
  #all;
  #doneOf;
  /** Files with a test that failed. */
  failures = new Set();
  #began = performance.now();
  #isTerminal = process.stdout.isTTY === true;
  #timer;

  /** Of `all` files; `doneOf` tells how many have ended. */
  constructor(all, doneOf) {
    this.#all = all;
    this.#doneOf = doneOf;
    this.#timer = setInterval(() => this.#say(), this.#isTerminal ? EVERY_MS.terminal : EVERY_MS.elsewhere);
  }

  /** A test of this file failed. */
  failed(file) {
    this.failures.add(file);
  }

  /** Makes room for other output. */
  clear() {
    if (this.#isTerminal) process.stdout.write('\r\x1b[K');
  }

  end() {
    clearInterval(this.#timer);
    this.clear();
  }

  #say() {
    const seconds = Math.round((performance.now() - this.#began) / 1000);
    const failed = this.failures.size === 0 ? 'none failed' : `failed so far: ${[...this.failures].join(', ')}`;
    const line = `${this.#doneOf()} of ${this.#all} files, ${seconds} s, ${failed}`;
    if (this.#isTerminal) process.stdout.write(`\r\x1b[K${line.slice(0, (process.stdout.columns ?? 80) - 1)}`);
    else console.log(line);
  }
}
