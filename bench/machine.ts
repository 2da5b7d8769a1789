/** On what the numbers were taken: without it they say nothing. */
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
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

const FILE_SYSTEMS: Record<number, string> = {
  61267: 'ext4',
  16914836: 'tmpfs',
  2435016766: 'btrfs',
  1481003842: 'xfs',
  2035054128: 'overlay',
  801189825: 'zfs',
};
const FSYNCS = 51;
const BLOCK = Buffer.alloc(4096);

export function describeMachine(dir: string): Machine {
  const cores = cpus();
  const kind = statfsSync(dir).type;
  return {
    cpu: cores[0]?.model ?? 'unknown',
    cores: cores.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    node: process.version,
    fileSystem: FILE_SYSTEMS[kind] ?? `0x${kind.toString(16)}`,
    fsyncMs: fsyncTime(join(dir, 'fsync-probe')),
    loadAverage: loadavg()[0] as number,
  };
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
