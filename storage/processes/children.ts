/** Records the gateway's child processes, so that a new gateway finds those that a dead one left. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { compareIdentity, identityOf, killGroup, type ProcessIdentity } from './process-identity.ts';
import { descendantsOf, killAll, sweepTagged } from './tagged.ts';

/** The role of a process that leads a process group, which ends with it. */
export const GROUP_LEADER = 'mcp-server';
/** The same of a program of an agent, or of the tests of an app, which may also have started processes outside its group. */
export const AGENT_LEADER = 'agent';

/** `role` is what the child does (`writer`, `host`, …), `instance` the boot of the gateway that started it. */
export type ChildRecord = ProcessIdentity & { role: string; instance: string };

/** The role of the process that owns the agents. */
const AGENTS: string = 'agents';
const POLL_MS = 10;

/** Keeps `run/children.json` up to date, written without fsync: a crash of the machine ends the children too. */
export class Children {
  readonly #path: string;
  readonly #instance: string;
  readonly #records = new Map<number, ChildRecord>();

  constructor(path: string, instance: string) {
    this.#path = path;
    this.#instance = instance;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  }

  add(pid: number, role: string): void {
    this.#records.set(pid, { ...identityOf(pid), role, instance: this.#instance });
    this.#write();
  }

  remove(pid: number): void {
    if (this.#records.delete(pid)) this.#write();
  }

  #write(): void {
    const temporary = `${this.#path}.tmp`;
    try {
      writeFileSync(temporary, JSON.stringify([...this.#records.values()], null, 2), { mode: 0o600 });
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
    renameSync(temporary, this.#path);
  }
}

/**
 * Ends what a dead gateway left running, by identity and not by pid alone. `tag` is that of its agents, whose processes are
 * looked for where it had any. Rejects when a child does not end.
 */
export async function reapChildren(path: string, tag: string): Promise<ChildRecord[]> {
  const records = readRecords(path);
  const left = records.filter((child) => compareIdentity(child) === 'same');
  const ofAgents = records.filter(({ role }) => role === AGENT_LEADER || role === AGENTS);
  // Listed first: when a process ends, its children lose their parent.
  const roots = left.filter((child) => ofAgents.includes(child)).map(({ pid }) => pid);
  const started = roots.length > 0 ? descendantsOf(roots) : [];
  for (const child of records) {
    // A group may have outlived its leader. Where the system does not say when a process started, nothing is certain enough.
    if ((child.role === GROUP_LEADER || child.role === AGENT_LEADER) && child.startedAs) killGroup(child);
  }
  for (const child of left) kill(child.pid);
  killAll(started);
  if (ofAgents.length > 0) {
    await sweepTagged(
      tag,
      ofAgents.filter(({ role }) => role === AGENT_LEADER),
    );
  }
  const deadline = performance.now() + LIMITS.heartbeatDeadMs;
  for (const child of left) {
    while (compareIdentity(child) === 'same') {
      if (performance.now() > deadline)
        throw new Error(`A ${child.role} of an earlier gateway (pid ${child.pid}) does not end.`);
      await wait(POLL_MS);
    }
  }
  return left;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** An unreadable record names no process; children also end by themselves when their parent is gone. */
function readRecords(path: string): ChildRecord[] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return Array.isArray(value) ? (value as ChildRecord[]).filter((child) => typeof child?.pid === 'number') : [];
  } catch {
    return [];
  }
}
