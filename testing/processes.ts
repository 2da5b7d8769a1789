/** The processes of a daemon as the system lists them, their CPU time and their memory. Linux only. */
import { readdirSync, readFileSync } from 'node:fs';
import { identityOf, type ProcessIdentity } from '../storage/processes/process-identity.ts';

// Linux reports CPU time in this unit on every architecture Node runs on.
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export type Child = ProcessIdentity & { role: 'writer' | 'host' | 'jobs' | 'agents' | 'other' };

/** The daemon's processes, with a mark that distinguishes each from a later process with its pid. */
export function childrenOf(daemon: number): Child[] {
  const children: Child[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || parentOf(name) !== daemon) continue;
    children.push({ ...identityOf(Number(name)), role: roleOf(name) });
  }
  return children;
}

/** False for a process that has ended but was not reaped. */
export function isRunning(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== null && stat[0] !== 'Z';
}

/** Whether SIGSTOP has reached all of its threads: on a busy machine some go on for a while. */
export function isStopped(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => statOf(`${pid}/task/${thread}`)?.[0] === 'T');
}

function parentOf(pid: string): number | null {
  const stat = statOf(pid);
  return stat === null ? null : Number(stat[1]);
}

/** The fields from the third one on: the second is the program's name in parentheses and may hold anything. */
function statOf(pid: number | string): string[] | null {
  const stat = readProc(pid, 'stat');
  return stat === null ? null : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** A process that is being started still has its parent's command line. */
function roleOf(pid: string): Child['role'] {
  const file = (readProc(pid, 'cmdline') ?? '').split('\0').find((argument) => /\.c?js$/.test(argument)) ?? '';
  const [, role] = /(writer|host|jobs|agents)\.c?js$/.exec(file) ?? [];
  return (role as Child['role'] | undefined) ?? 'other';
}

export type NamedProcess = { name: string; pid: number };

/** CPU time in milliseconds since the process began, all its threads, user and system; 0 when it is gone. */
export function cpuMs(pid: number): number {
  const fields = statOf(pid);
  return fields === null ? 0 : (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** CPU time in milliseconds of the threads that it has now, as precise as the scheduler counts. */
export function threadsCpuMs(pid: number): number {
  const counts = readdirSync(`/proc/${pid}/task`).map((thread) => readProc(pid, `task/${thread}/schedstat`));
  return counts.reduce((sum, count) => sum + Number(count?.split(' ')[0] ?? 0) / 1e6, 0);
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
  const rollup = readProc(pid, 'smaps_rollup');
  if (rollup === null) return { rss: 0, pss: 0 };
  const bytes = (field: string): number => Number(new RegExp(`^${field}: *(\\d+) kB`, 'm').exec(rollup)?.[1]) * 1024;
  return { rss: bytes('Rss'), pss: bytes('Pss') };
}

export function memoryOfAll(processes: NamedProcess[]): Memory {
  return processes
    .map(({ pid }) => memoryOf(pid))
    .reduce((sum, memory) => ({ rss: sum.rss + memory.rss, pss: sum.pss + memory.pss }), { rss: 0, pss: 0 });
}

/** A file of `/proc`; null when the process has ended meanwhile. */
export function readProc(pid: number | string, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
