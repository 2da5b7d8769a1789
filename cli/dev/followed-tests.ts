/** Runs the tests of a folder that `svc dev` follows, after each change; a change during a run starts it again. */
import { relative } from 'node:path';
import type { TestResult } from '../../protocol/answer-types.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import { findTests, runTests } from '../app-tests/run-tests.ts';
import { errorBodyOf } from '../failure.ts';
import { scanAppFolder } from './app-folder.ts';

/** `failures` have their files relative to the folder; `error` says why no test ran. */
export type TestsEvent = { event: 'tests'; tests: number; ms: number; failures: TestResult[]; error?: ErrorBody };

export class FollowedTests {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #tell: (event: TestsEvent) => void;
  /** The state of the folder at the last run. */
  #state = '';
  #running = new AbortController();
  #ended: Promise<boolean> = Promise.resolve(true);

  constructor(folder: string, env: NodeJS.ProcessEnv, tell: (event: TestsEvent) => void) {
    this.#folder = folder;
    this.#env = env;
    this.#tell = tell;
  }

  /** Resolves with whether they passed, also when there are none. Does nothing if the folder is unchanged. */
  again(): Promise<boolean> {
    const state = this.#look();
    if (state === this.#state) return this.#ended;
    this.#state = state;
    this.#running.abort();
    this.#running = new AbortController();
    const { signal } = this.#running;
    this.#ended = this.#ended.then(() => this.#run(signal));
    return this.#ended;
  }

  async stop(): Promise<void> {
    this.#running.abort();
    await this.#ended;
  }

  /** A folder that cannot be read counts as unchanged: the draft reports it. */
  #look(): string {
    try {
      return scanAppFolder(this.#folder).state;
    } catch {
      return this.#state;
    }
  }

  async #run(signal: AbortSignal): Promise<boolean> {
    const since = performance.now();
    const msSince = (): number => Math.round(performance.now() - since);
    try {
      const files = findTests(this.#folder);
      if (signal.aborted || files.length === 0) return true;
      const { code, results } = await runTests(this.#folder, files, { env: this.#env, shown: false, signal });
      const failures = results
        .filter(({ state }) => state === 'failed')
        .map((result) => ({ ...result, file: result.file && relative(this.#folder, result.file) }));
      this.#tell({ event: 'tests', tests: results.length, ms: msSince(), failures });
      return code === 0;
    } catch (error) {
      if (!signal.aborted)
        this.#tell({ event: 'tests', tests: 0, ms: msSince(), failures: [], error: errorBodyOf(error) });
      return false;
    }
  }
}
