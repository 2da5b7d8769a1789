/** On what the numbers were taken: without it they say nothing. */
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { cpus, loadavg, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { median } from './statistics.ts';

export type Machine = {
  cpu: string;
  cores: number;
  memoryGiB: number;
  kernel: string;
  node: string;
  /** Of the folder that the gateway wrote to. On `tmpfs` a durable write costs nothing, and the write numbers mean little. */
  fileSystem: string;
  /** Median milliseconds to append 4 KiB there and fsync. */
  fsyncMs: number;
  /** Of the last minute, before the run: what else kept the machine busy. */
  loadAverage: number;
};

const FSYNCS = 51;
const BLOCK = Buffer.alloc(4096);

export function describeMachine(dir: string): Machine {
  const cores = cpus();
  return {
    cpu: cores[0]?.model ?? 'unknown',
    cores: cores.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    node: process.version,
    fileSystem: fileSystemOf(dir),
    fsyncMs: fsyncTime(join(dir, 'fsync-probe')),
    loadAverage: loadavg()[0] as number,
  };
}

/** As GNU’s `df` says. */
function fileSystemOf(dir: string): string {
  const { stdout } = spawnSync('df', ['--output=fstype', dir], { encoding: 'utf8' });
  return stdout?.split('\n')[1] || 'unknown';
}

function fsyncTime(path: string): number {
  const file = openSync(path, 'w');
  try {
    return median(
      Array.from({ length: FSYNCS }, () => {
        const startedAt = performance.now();
        writeSync(file, BLOCK);
        fsyncSync(file);
        return performance.now() - startedAt;
      }),
    );
  } finally {
    closeSync(file);
    rmSync(path);
  }
}
