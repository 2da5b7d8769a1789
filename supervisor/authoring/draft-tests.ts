/**
 * Runs the tests of an app in a draft: `svc test` on a copy of its files, which Node's test runner runs as programs of the gateway's
 * user. Time, memory and output are limited, and what they started ends with them.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { cp, lstat, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { AppTests, TestResult } from '../../protocol/answer-types.ts';
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { draftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isTestFile } from '../../protocol/rules/static-files.ts';
import { joinSignals } from '../../protocol/signals.ts';
import { AGENT_LEADER } from '../../storage/processes/children.ts';
import { largestBelow } from '../../storage/processes/memory.ts';
import { sweepTagged, TAG_VARIABLE } from '../../storage/processes/tagged.ts';
import { packageRoot } from '../tree/entry-points.ts';
import type { Workspaces } from './workspaces.ts';

/** Variables of the gateway that the tests get. */
const KEPT = ['PATH', 'LANG', 'TZ'];

export type DraftTestsOptions = {
  workspaces: Workspaces;
  /** `tagOf` the data directory. */
  tag: string;
  /** A process started or ended: the record of children on disk is due. */
  onProcess(pid: number, role: string, alive: boolean): void;
};

/** A line of a stack that is Node's own. */
const INTERNAL_FRAME = /\n\s+at [^\n]*\bnode:internal\/[^\n]*/g;

/** What `svc test --json` prints. */
type Printed = { passed: boolean; tests: TestResult[] } | { isError: true; error: ErrorBody };

export class DraftTests {
  readonly #options: DraftTestsOptions;
  /** The run under way, with the key of its draft and what ends it. */
  #running: { key: string; end: AbortController; over: Promise<unknown> } | null = null;

  constructor(options: DraftTestsOptions) {
    this.#options = options;
  }

  /**
   * Rejects with `CONFLICT` while tests run, with what `Workspaces.files` rejects with, and when `signal` aborts. An app that cannot be
   * made live, and tests that are ended for a limit, are an answer with an `error`.
   */
  async run(workspace: string, app: string, signal: AbortSignal): Promise<AppTests> {
    if (this.#running !== null)
      throw new SvcError('CONFLICT', 'Tests of a draft are running. Run these when they have ended.');
    const end = new AbortController();
    const joined = joinSignals([signal, end.signal]);
    const over = this.#run(workspace, app, joined.signal);
    this.#running = { key: draftKey(workspace, app), end, over: over.catch(() => {}) };
    try {
      return await over;
    } finally {
      joined.release();
      this.#running = null;
    }
  }

  /** Ends what is under way. */
  stop(): Promise<void> {
    return this.end(() => true, new SvcError('OVERLOADED', 'The gateway is stopping.'));
  }

  /** Ends those of these drafts, by their keys. */
  async end(isOf: (key: string) => boolean, reason: SvcError): Promise<void> {
    if (this.#running === null || !isOf(this.#running.key)) return;
    this.#running.end.abort(reason);
    await this.#running.over;
  }

  async #run(workspace: string, app: string, signal: AbortSignal): Promise<AppTests> {
    const { workspaces } = this.#options;
    const files = await workspaces.files(workspace, app);
    if (!files.some(({ path }) => isTestFile(path.slice(path.lastIndexOf('/') + 1))))
      return { app, passed: false, tests: [] };
    // Beside the sockets of the test's own gateways, whose paths may have little more than 100 bytes.
    const work = await realpath(await mkdtemp(join(tmpdir(), 'svc-tests-')));
    try {
      const folder = join(work, app);
      const isPlain = async (path: string): Promise<boolean> => {
        const found = await lstat(path);
        return found.isFile() || found.isDirectory();
      };
      await cp(await workspaces.folder(workspace, app), folder, { recursive: true, filter: isPlain });
      signal.throwIfAborted();
      return { app, ...shown(await this.#test(folder, work, signal), folder) };
    } finally {
      await rm(work, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  async #test(folder: string, work: string, signal: AbortSignal): Promise<Printed> {
    const { onProcess } = this.#options;
    const tag = `${this.#options.tag}.tests`;
    const kept = KEPT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
    const child = spawn(process.execPath, [join(packageRoot, 'bin/svc.js'), 'test', folder, '--json'], {
      cwd: work,
      env: {
        ...Object.fromEntries(kept),
        HOME: work,
        TMPDIR: work,
        NODE_OPTIONS: `--max-old-space-size=${LIMITS.appTestsHeapMb}`,
        [TAG_VARIABLE]: tag,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    if (child.pid !== undefined) onProcess(child.pid, AGENT_LEADER, true);
    try {
      return await outcomeOf(child, signal);
    } finally {
      await ended(child);
      // Test files, and what they started.
      await sweepTagged(tag);
      if (child.pid !== undefined) onProcess(child.pid, AGENT_LEADER, false);
    }
  }
}

/** Resolves with what it printed, or with the limit that it exceeded. */
function outcomeOf(child: ChildProcess, signal: AbortSignal): Promise<Printed> {
  return new Promise((resolve, reject) => {
    const output: string[] = [];
    let chars = 0;
    let faults = '';
    const over = (what: string): void => resolve(failed(`The tests were ended: ${what}.`));
    const tooLate = setTimeout(() => over(`they ran for over ${LIMITS.appTestsMs / 1000} s`), LIMITS.appTestsMs);
    const looking = setInterval(() => {
      if (largestBelow(child.pid ?? 0) > LIMITS.appTestsMemoryMb)
        over(`one of their processes used over ${LIMITS.appTestsMemoryMb} MiB of memory`);
    }, LIMITS.appTestsLookMs);
    const aborted = (): void => reject(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      chars += text.length;
      if (chars > LIMITS.appTestsOutputChars) over('they print too much');
      else output.push(text);
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      faults = (faults + text).slice(-LIMITS.appTestErrorChars);
    });
    child.on('error', reject);
    child.on('close', () => {
      clearTimeout(tooLate);
      clearInterval(looking);
      signal.removeEventListener('abort', aborted);
      resolve(parse(output.join('')) ?? failed(`The tests could not be run. ${faults.trim()}`));
    });
    if (signal.aborted) aborted();
  });
}

/** The command ends what it started when it is asked to. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined) return;
  const over = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const closed = over() ? Promise.resolve() : new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  await Promise.race([closed, wait(LIMITS.terminateMs, undefined, { ref: false })]);
  if (!over()) child.kill('SIGKILL');
  await closed;
}

function parse(text: string): Printed | null {
  try {
    return JSON.parse(text) as Printed;
  } catch {
    return null;
  }
}

function failed(message: string): Printed {
  return { isError: true, error: new SvcError('HANDLER_ERROR', message).toBody() };
}

/** Files are named as in the app, and errors are cut to what a page can show. */
function shown(printed: Printed, folder: string): Omit<AppTests, 'app'> {
  if ('isError' in printed) return { passed: false, tests: [], error: printed.error };
  const textOf = (text: string): string =>
    text
      .replaceAll(INTERNAL_FRAME, '')
      .replaceAll(`file://${folder}/`, '')
      .replaceAll(`${folder}/`, '')
      .slice(0, LIMITS.appTestErrorChars);
  const tests = printed.tests.slice(0, LIMITS.listRowsMax).map(({ file, error, ...result }) => ({
    ...result,
    file: file === null ? null : relative(folder, file),
    ...(error === undefined ? {} : { error: textOf(error) }),
  }));
  return { passed: printed.passed, tests };
}
