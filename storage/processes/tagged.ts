/**
 * Finds and ends all processes that a program has started: its descendants, every process whose environment has its tag, and
 * every process of its session, such as one that got no environment. All is read from `/proc`; where there is none, nothing is
 * found.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { compareIdentity, entryOf, type ProcessEntry, type ProcessIdentity, sessionsOf } from './process-identity.ts';

/** The variable that holds the tag, which processes inherit. */
export const TAG_VARIABLE = 'SVC_AGENT';

const POLL_MS = 10;
/** How long a killed process may take to end. */
const SWEEP_MS = 2000;

/** What the tags of a data directory's agents begin with: the same for every gateway on it. The directory must exist. */
export function tagOf(dataDir: string): string {
  return createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16);
}

/**
 * All processes below `roots`, without these. Call it before the first signal: a process whose parent has ended is below none
 * of the roots.
 */
export function descendantsOf(roots: readonly number[]): ProcessIdentity[] {
  const children = new Map<number, ProcessEntry[]>();
  for (const entry of processes()) {
    const siblings = children.get(entry.parent);
    if (siblings) siblings.push(entry);
    else children.set(entry.parent, [entry]);
  }
  const found = new Map<number, ProcessEntry>();
  const visit = (pid: number): void => {
    for (const child of children.get(pid) ?? []) {
      if (found.has(child.pid)) continue;
      found.set(child.pid, child);
      visit(child.pid);
    }
  };
  for (const root of roots) visit(root);
  for (const root of roots) found.delete(root);
  return [...found.values()];
}

/**
 * The processes whose tag is `tag` or begins with it and a dot, and those of the sessions that `leaders` led, but for this one and
 * those that it descends from.
 */
export function taggedWith(tag: string, leaders: readonly ProcessIdentity[] = []): ProcessIdentity[] {
  const exact = Buffer.from(`${TAG_VARIABLE}=${tag}\0`);
  const below = Buffer.from(`${TAG_VARIABLE}=${tag}.`);
  const spared = ancestorsOf(process.pid);
  const isOfSession = sessionsOf(leaders);
  return [...processes()].filter((entry) => {
    if (spared.has(entry.pid)) return false;
    if (isOfSession(entry)) return true;
    const environment = environmentOf(entry.pid);
    return startsVariable(environment, exact) || startsVariable(environment, below);
  });
}

/** What a program has started and what runs: all below it, with its tag, or of its session. */
export function startedBy(program: ProcessIdentity, tag: string): ProcessIdentity[] {
  const found = [...descendantsOf([program.pid]), ...taggedWith(tag, [program])];
  const others = found.filter(({ pid }) => pid !== program.pid);
  return [...new Map(others.map((one) => [one.pid, one])).values()];
}

/** SIGKILL for each that is still the same process. */
export function killAll(processes: readonly ProcessIdentity[]): void {
  for (const found of processes) {
    if (compareIdentity(found) !== 'same') continue;
    try {
      process.kill(found.pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile, or belongs to another user by now.
    }
  }
}

/** Kills what `taggedWith` finds until there is nothing: while we look, one of them may start another. Resolves with those that do not end. */
export function sweepTagged(tag: string, leaders: readonly ProcessIdentity[] = []): Promise<ProcessIdentity[]> {
  return sweep(() => taggedWith(tag, leaders));
}

/** The same for what `startedBy` finds beside `before`: the program goes on. */
export function sweepStarted(
  program: ProcessIdentity,
  tag: string,
  before: readonly ProcessIdentity[],
): Promise<ProcessIdentity[]> {
  const isNew = ({ pid, startedAs }: ProcessIdentity): boolean =>
    !before.some((one) => one.pid === pid && one.startedAs === startedAs);
  return sweep(() => startedBy(program, tag).filter(isNew));
}

async function sweep(find: () => ProcessIdentity[]): Promise<ProcessIdentity[]> {
  const deadline = performance.now() + SWEEP_MS;
  for (;;) {
    const left = find();
    if (left.length === 0 || performance.now() > deadline) return left;
    killAll(left);
    await wait(POLL_MS);
  }
}

function* processes(): Generator<ProcessEntry> {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return;
  }
  for (const name of names) {
    const entry = /^\d+$/.test(name) ? entryOf(Number(name)) : null;
    if (entry) yield entry;
  }
}

/** With itself. */
function ancestorsOf(pid: number): Set<number> {
  const found = new Set<number>();
  for (let at = entryOf(pid); at !== null && !found.has(at.pid); at = entryOf(at.parent)) found.add(at.pid);
  return found;
}

/** As it was when the program started; empty for those of other users. */
function environmentOf(pid: number): Buffer {
  try {
    return readFileSync(`/proc/${pid}/environ`);
  } catch {
    return Buffer.alloc(0);
  }
}

function startsVariable(environment: Buffer, wanted: Buffer): boolean {
  for (let at = environment.indexOf(wanted); at >= 0; at = environment.indexOf(wanted, at + 1)) {
    if (at === 0 || environment[at - 1] === 0) return true;
  }
  return false;
}
