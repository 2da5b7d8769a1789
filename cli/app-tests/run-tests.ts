/** Runs the test files of an app with Node's own test runner, each in a separate process. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TestResult } from '../../protocol/answer-types.ts';
import { isTestFile } from '../../protocol/rules/static-files.ts';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { prepareApp } from './prepare.ts';

type TestRun = {
  /** Of Node's test runner: 0 when every test passed. */
  code: number;
  results: TestResult[];
};

type RunOptions = {
  env: NodeJS.ProcessEnv;
  /** Whether the report for people goes to standard output. */
  shown: boolean;
  /** Ends the run, with all that it started. */
  signal?: AbortSignal;
};

/** The test files of an app's folder, absolute; folders whose name begins with a dot and `node_modules` have none. */
export function findTests(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.') || entry.name === 'node_modules') return [];
    if (entry.isDirectory()) return findTests(path);
    return entry.isFile() && isTestFile(entry.name) ? [path] : [];
  });
}

/** Rejects as an upload does when the app cannot be made live, and with the reason of `signal`. */
export async function runTests(folder: string, files: string[], options: RunOptions): Promise<TestRun> {
  const { prepared, root } = await prepareApp(folder);
  try {
    options.signal?.throwIfAborted();
    const events = join(root, 'results.jsonl');
    const code = await runNode(files, { ...options.env, SVC_TEST: JSON.stringify(prepared) }, events, options);
    options.signal?.throwIfAborted();
    const lines = readFileSync(events, 'utf8').split('\n').filter(Boolean);
    return { code, results: lines.map((line) => JSON.parse(line) as TestResult) };
  } finally {
    // Processes of an aborted run may still write.
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
}

function runNode(
  files: string[],
  env: NodeJS.ProcessEnv,
  results: string,
  { shown, signal }: Omit<RunOptions, 'env'>,
): Promise<number> {
  const built = (name: string): string => pathToFileURL(join(packageRoot, 'dist', name)).href;
  const flags = [
    ...['--no-warnings', '--import', built('test-register.js'), '--test'],
    ...(shown ? ['--test-reporter=spec', '--test-reporter-destination=stdout'] : []),
    ...[`--test-reporter=${built('test-reporter.js')}`, `--test-reporter-destination=${results}`],
  ];
  // A Node test that calls this must not take over the report. Handlers have no variables, so tests must use their time
  // zone too.
  const { NODE_TEST_CONTEXT, TZ, ...rest } = env;
  const stdio = ['ignore', shown ? 'inherit' : 'ignore', 'inherit'] as const;
  const child = spawn(process.execPath, [...flags, ...files], { env: rest, stdio: [...stdio], detached: true });
  // Ends the process group, because each test file is a process too.
  const stop = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
    } catch {
      // It has already ended.
    }
  };
  signal?.addEventListener('abort', stop, { once: true });
  return new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code ?? 1));
  }).finally(() => signal?.removeEventListener('abort', stop));
}
