/** CPU time and memory of processes as Linux counts them (`/proc`). */
import { readFileSync } from 'node:fs';
import { read } from '../testing/processes.ts';

// Linux reports CPU time in this unit on every architecture Node runs on.
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export type NamedProcess = { name: string; pid: number };

/** CPU time in milliseconds since the process began, all its threads, user and system; 0 when it is gone. */
export function cpuMs(pid: number): number {
  const stat = read(pid, 'stat');
  if (stat === null) return 0;
  // The command name in parentheses may hold spaces; the numbered fields start after it, at field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Bytes, as `memoryOf`, for a fraction of what that costs the process that is looked at. */
export function rssOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES;
}

/**
 * Bytes. `rss` counts what is shared with other processes (the Node executable) once in each of them, `pss` shares it out
 * between them, so that only `pss` may be added up over a tree.
 */
export type Memory = { rss: number; pss: number };

/** Nothing of a process that is gone. */
export function memoryOf(pid: number): Memory {
  const rollup = read(pid, 'smaps_rollup');
  if (rollup === null) return { rss: 0, pss: 0 };
  const bytes = (field: string): number => Number(new RegExp(`^${field}: *(\\d+) kB`, 'm').exec(rollup)?.[1]) * 1024;
  return { rss: bytes('Rss'), pss: bytes('Pss') };
}

export function memoryOfAll(processes: NamedProcess[]): Memory {
  return processes
    .map(({ pid }) => memoryOf(pid))
    .reduce((sum, memory) => ({ rss: sum.rss + memory.rss, pss: sum.pss + memory.pss }), { rss: 0, pss: 0 });
}
