/** Crashes to come at calls that change files, and the calls that were made, as `crash.c` has them. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileShim } from './compile.ts';

/** `passing`: at which passing of the point, from 1. `tree` takes every process with the same plan along. */
export type Crash = { point: string; passing: number; mode: 'process' | 'tree' };

export type Passed = { point: string; pid: number };

export class CrashPlan {
  /** For the environment of the first process; the programs that it starts inherit it. */
  readonly env: Record<string, string>;
  readonly #file: string;

  /** `library` is compiled from `crash.c`. `folders` are watched; `file`, outside of them, is made. */
  constructor(library: string, file: string, folders: string[]) {
    this.#file = file;
    this.env = { LD_PRELOAD: library, CRASH_FOLDERS: folders.join(':'), CRASH_PLAN: file, UV_USE_IO_URING: '0' };
    this.set([]);
  }

  /** One whose files are in `folder`, for a test. */
  static in(folder: string, watched: string): CrashPlan {
    const library = join(folder, 'crash.so');
    compileShim('crash.c', library);
    return new CrashPlan(library, join(folder, 'plan'), [watched]);
  }

  /** What is passed from here on is recorded anew. */
  set(crashes: Crash[]): void {
    writeFileSync(`${this.#file}.passed`, '');
    writeFileSync(this.#file, crashes.map(({ point, passing, mode }) => `${passing} ${mode} ${point}\n`).join(''));
  }

  /** Those that have not come are not to come any more; what was passed stays recorded. */
  cancel(): void {
    writeFileSync(this.#file, '');
  }

  /** Crashes that are still to come. */
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

/** Runs the text of a module in a process of its own; its exit code, null when it was killed. */
export function runOn(plan: CrashPlan, code: string): number | null {
  const args = ['--import', 'tsx', '--input-type=module', '--eval', code];
  return spawnSync(process.execPath, args, { env: { ...process.env, ...plan.env } }).status;
}

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8').split('\n').filter(Boolean);
}
