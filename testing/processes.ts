/** The processes of a daemon as the system lists them, whether or not the daemon can still be asked. Linux only. */
import { readdirSync, readFileSync } from 'node:fs';
import { identityOf, type ProcessIdentity } from '../storage/processes/process-identity.ts';

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
  const stat = read(`${pid}`, 'stat');
  return stat !== null && stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z';
}

function parentOf(pid: string): number | null {
  const stat = read(pid, 'stat');
  // The second field is the program's name in parentheses and may hold anything.
  return stat === null ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** A process that is being started still has its parent's command line. */
function roleOf(pid: string): Child['role'] {
  const file = (read(pid, 'cmdline') ?? '').split('\0').find((argument) => argument.endsWith('.js')) ?? '';
  const [, role] = /(writer|host|jobs|agents)\.js$/.exec(file) ?? [];
  return (role as Child['role'] | undefined) ?? 'other';
}

/** A file of `/proc`; null when the process has ended meanwhile. */
export function read(pid: number | string, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return null;
  }
}
