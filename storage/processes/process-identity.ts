/** Distinguishes a process from a later one with the same pid. */
import { readFileSync } from 'node:fs';

/** A pid and what it was started as; `startedAs` is null where the system does not say (not Linux). */
export type ProcessIdentity = { pid: number; startedAs: string | null };

export function identityOf(pid: number): ProcessIdentity {
  return { pid, startedAs: startedAs(pid) };
}

/** `unknown`: something has this pid, and the system cannot say whether it is the same process. */
export function compareIdentity(recorded: ProcessIdentity): 'same' | 'gone' | 'unknown' {
  if (!isRunning(recorded.pid)) return 'gone';
  const now = startedAs(recorded.pid);
  if (process.platform === 'linux' && now === null) return 'gone';
  if (recorded.startedAs === null || now === null) return 'unknown';
  return now === recorded.startedAs ? 'same' : 'gone';
}

/** Kills the group that `leader` led, also processes that outlived it, unless another process has its pid now. */
export function killGroup(leader: ProcessIdentity): void {
  const now = startedAs(leader.pid);
  if (now !== null && leader.startedAs !== null && now !== leader.startedAs) return;
  try {
    process.kill(-leader.pid, 'SIGKILL');
  } catch {
    // The group has ended.
  }
}

/** Whether a process of any user has this pid. False for numbers that cannot be the pid of one process, such as 0. */
export function isRunning(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** A line of the system's table of processes. */
export type ProcessEntry = ProcessIdentity & { parent: number; session: number };

/** For a running process; null for one that has ended and waits for its parent, and where the system has no `/proc`. */
export function entryOf(pid: number): ProcessEntry | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in parentheses and may hold anything, parentheses and spaces included.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, parent, , session] = fields;
    const ticks = fields[19];
    if (ticks === undefined || state === 'Z' || state === 'X') return null;
    bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return { pid, startedAs: `${bootId}/${ticks}`, parent: Number(parent), session: Number(session) };
  } catch {
    return null;
  }
}

/**
 * Recognizes processes of the sessions that `leaders` led. Linux reuses no pid that a session has, so a process with that
 * session id belongs to it, unless another process has the leader's pid now or the machine was restarted.
 */
export function sessionsOf(leaders: readonly ProcessIdentity[]): (entry: ProcessEntry) => boolean {
  const sessions = new Map<number, string>();
  for (const { pid, startedAs: was } of leaders) {
    const now = startedAs(pid);
    if (was !== null && (now === null || now === was)) sessions.set(pid, was);
  }
  return ({ session, startedAs: started }) => {
    const was = sessions.get(session);
    return was !== undefined && started?.split('/')[0] === was.split('/')[0];
  };
}

let bootId: string | null = null;

/** Boot and clock tick at which the process started. */
function startedAs(pid: number): string | null {
  return entryOf(pid)?.startedAs ?? null;
}
