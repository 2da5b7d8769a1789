/** Planned crashes at calls that change files, and the recorded calls, in the format of `crash.c`. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { BUNDLE } from '../job-module.ts';
import { compileShim } from './compile.ts';

/** `passing`: the number of the passing of the point, from 1. `tree` also ends every process with the same plan. */
export type Crash = { point: string; passing: number; mode: 'process' | 'tree' };

export type Passed = { point: string; pid: number };

export class CrashPlan {
  /** For the environment of the first process; the programs that it starts inherit it. */
  readonly env: Record<string, string>;
  readonly #file: string;

  /** `library` is compiled from `crash.c`. `folders` are watched; `file`, outside of them, is created. */
  constructor(library: string, file: string, folders: string[]) {
    this.#file = file;
    this.env = { LD_PRELOAD: library, CRASH_FOLDERS: folders.join(':'), CRASH_PLAN: file, UV_USE_IO_URING: '0' };
    this.set([]);
  }

  /** A plan whose files are in `folder`, for a test. */
  static in(folder: string, watched: string): CrashPlan {
    return new CrashPlan(shimOfTests(), join(folder, 'plan'), [watched]);
  }

  /** Clears the record of passed points. */
  set(crashes: Crash[]): void {
    writeFileSync(`${this.#file}.passed`, '');
    writeFileSync(this.#file, crashes.map(({ point, passing, mode }) => `${passing} ${mode} ${point}\n`).join(''));
  }

  /** Cancels the remaining crashes; passed points stay recorded. */
  cancel(): void {
    writeFileSync(this.#file, '');
  }

  /** The remaining crashes. */
  pending(): number {
    return linesOf(this.#file).length;
  }

  passed(): Passed[] {
    return linesOf(`${this.#file}.passed`).map((line) => {
      const [pid, point] = line.split(/ (.*)/);
      return { point: point as string, pid: Number(pid) };
    });
  }
}

/**
 * Runs the text of a module with its imports in a separate process; returns its exit code, null if it was killed. The same text
 * is built once: what differs between two runs comes by `env`.
 */
export function runOn(plan: CrashPlan, code: string, env: Record<string, string> = {}): number | null {
  const input = modules.get(code) ?? built(code);
  modules.set(code, input);
  return spawnSync(process.execPath, ['--input-type=module'], { env: { ...process.env, ...plan.env, ...env }, input })
    .status;
}

/** By their text, as one module with all imports. */
const modules = new Map<string, string>();

function built(code: string): string {
  const stdin = { contents: code, resolveDir: import.meta.dirname };
  return buildSync({ ...BUNDLE, stdin, write: false }).outputFiles[0]?.text ?? '';
}

let shim: string | null = null;

/** Compiled once, and kept until the process ends. */
function shimOfTests(): string {
  if (shim !== null) return shim;
  const folder = mkdtempSync(join(tmpdir(), 'svc-shim-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  shim = join(folder, 'crash.so');
  compileShim('crash.c', shim);
  return shim;
}

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8').split('\n').filter(Boolean);
}
