/** CPU time and memory of processes as Linux counts them (`/proc`). */
import { readFileSync } from 'node:fs';

// Linux reports CPU time in this unit on every architecture Node runs on.
const TICK_MS = 10;

export type NamedProcess = { name: string; pid: number };

/** CPU time in milliseconds since the process began, all its threads, user and system. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command name in parentheses may hold spaces; the numbered fields start after it, at field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/**
 * Bytes. `rss` counts what is shared with other processes (the Node executable) once in each of them, `pss` shares it out
 * between them, so that only `pss` may be added up over a tree.
 */
export type Memory = { rss: number; pss: number };

export function memoryOf(pid: number): Memory {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const bytes = (field: string): number => Number(new RegExp(`^${field}: *(\\d+) kB`, 'm').exec(rollup)?.[1]) * 1024;
  return { rss: bytes('Rss'), pss: bytes('Pss') };
}

export function memoryOfAll(processes: NamedProcess[]): Memory {
  return processes
    .map(({ pid }) => memoryOf(pid))
    .reduce((sum, memory) => ({ rss: sum.rss + memory.rss, pss: sum.pss + memory.pss }), { rss: 0, pss: 0 });
}
