/** Finds the largest of a process and those that it has started, by `/proc`; without that nothing is found. */
import { readdirSync, readFileSync } from 'node:fs';

/** In MiB. */
export function largestBelow(pid: number): number {
  return Math.max(residentMb(pid), ...childrenOf(pid).map(largestBelow));
}

function residentMb(pid: number): number {
  const [, kib = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`)) ?? [];
  return Number(kib) / 1024;
}

function childrenOf(pid: number): number[] {
  try {
    const lists = readdirSync(`/proc/${pid}/task`).map((thread) => read(`/proc/${pid}/task/${thread}/children`));
    return lists.flatMap((list) => list.split(' ').map(Number)).filter((child) => child > 0);
  } catch {
    return [];
  }
}

/** Empty for a process that has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
