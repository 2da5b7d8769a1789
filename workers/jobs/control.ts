/**
 * Connects a job thread and its process by shared memory while a job runs, because the thread may be inside a step that does
 * not end.
 */
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

const HEAD = 4;
const TEXT_BYTES = 8 * 1024;
/** Places in the head. */
const CANCELLED = 0;
/** Counts up when a limited step begins and when it ends: odd while one is under way. */
const STEP = 1;
const LENGTH = 2;
/** How long the step may take, in milliseconds. */
const LIMIT = 3;

/** The job's side and the process's side of it alike. */
export class Control {
  readonly memory: SharedArrayBuffer;
  readonly #head: Int32Array;
  readonly #text: Uint8Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(4 * HEAD + TEXT_BYTES)) {
    this.memory = memory;
    this.#head = new Int32Array(memory, 0, HEAD);
    this.#text = new Uint8Array(memory, 4 * HEAD);
  }

  /** Asks the job to end soon. */
  cancel(): void {
    Atomics.store(this.#head, CANCELLED, 1);
  }

  get cancelled(): boolean {
    return Atomics.load(this.#head, CANCELLED) !== 0;
  }

  /** Number of the step under way, null without one. */
  get step(): number | null {
    const step = Atomics.load(this.#head, STEP);
    return step % 2 === 1 ? step : null;
  }

  get limitMs(): number {
    return Atomics.load(this.#head, LIMIT);
  }

  begin(ms: number): void {
    Atomics.store(this.#head, LENGTH, 0);
    Atomics.store(this.#head, LIMIT, ms);
    Atomics.add(this.#head, STEP, 1);
  }

  end(): void {
    Atomics.add(this.#head, STEP, 1);
  }

  /** The job's error if the current step has to be ended. */
  set verdict(error: SvcError) {
    const { code, message, path } = error;
    const body: ErrorBody = { code, message, ...(path === undefined ? {} : { path }) };
    const bytes = Buffer.from(JSON.stringify(body));
    // Leaves out a path that is too long.
    const verdict =
      bytes.length <= TEXT_BYTES ? bytes : Buffer.from(JSON.stringify({ code, message: 'It took too long.' }));
    Atomics.store(this.#head, LENGTH, 0);
    this.#text.set(verdict);
    Atomics.store(this.#head, LENGTH, verdict.length);
  }

  /** Null while the job writes it. */
  readVerdict(): ErrorBody | null {
    const length = Atomics.load(this.#head, LENGTH);
    if (length === 0) return null;
    const text = Buffer.from(this.#text.slice(0, length)).toString();
    return Atomics.load(this.#head, LENGTH) === length ? (JSON.parse(text) as ErrorBody) : null;
  }
}

/** The control of this thread's job; a thread runs one at a time. */
let current = new Control();

export function beginJob(memory: SharedArrayBuffer): void {
  current = new Control(memory);
}

/** Throws `OVERLOADED` when the job's result is not wanted any more. */
export function checkCancelled(): void {
  if (current.cancelled) throw new SvcError('OVERLOADED', 'The work was cancelled.');
}

/**
 * A step that has `LIMITS.schemasMs`, after which the process ends the thread. `about` is the error with which the job then
 * fails.
 */
export function timeLimited<T>(step: (about: (error: SvcError) => void) => T): T {
  const control = current;
  control.begin(LIMITS.schemasMs);
  try {
    return step((error) => {
      control.verdict = error;
    });
  } finally {
    control.end();
  }
}

/** Work with a limit of its own that yields in between. It fails with `error` when it takes longer. */
export async function timeLimitedWork<T>(ms: number, error: SvcError, work: () => Promise<T>): Promise<T> {
  const control = current;
  control.begin(ms);
  control.verdict = error;
  try {
    return await work();
  } finally {
    control.end();
  }
}
