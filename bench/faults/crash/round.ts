/** One round: an operation on a copy of its scene, cut off at planned points; afterwards old or new, whole. */
import { isDeepStrictEqual } from 'node:util';
import { Counts } from '../../../testing/clients.ts';
import { isRunning } from '../../../testing/processes.ts';
import type { Crash, Passed } from '../../../testing/shim/crash.ts';
import { pause, within } from '../../../testing/waiting.ts';
import { Load, verify } from '../../../testing/write-ledger.ts';
import { tokenIn } from '../changes.ts';
import { complaints, leftovers, type Observation, observe } from './observe.ts';
import type { Operation } from './scenes.ts';
import { copyOf, type Scene, type World } from './world.ts';

/** What the operation does when nothing goes wrong. */
export type Reference = {
  operation: Operation;
  scene: Scene;
  /** Null when there was no gateway before. */
  old: Observation | null;
  new: Observation;
  status: number;
  /** Points passed during the operation, in their order; `pid` is the gateway's or another. */
  passed: Passed[];
  gatewayPid: number;
  /** Points passed by a start after a crash outside of any operation, up to the end of the first look at everything. */
  restart: Counts;
};

export type RoundResult = {
  violations: string[];
  outcome: 'old' | 'new' | 'neither';
  /** Points passed from the first crash on until everything was well. */
  repair: Passed[];
  acknowledged: number;
  /** Planned crashes that the repair did not pass this time, though it may (`mayMiss`). */
  missed: number;
};

/** Starts that may fail because a planned crash comes in them. */
const STARTS = 5;
const REACH_MS = 15_000;
/** Writes that are acknowledged before the operation begins. */
const WARM_WRITES = 3;

/** Runs the operation without a crash. */
export async function rehearse(operation: Operation, scene: Scene, folder: string): Promise<Reference> {
  const world = copyOf(scene, folder);
  try {
    const old = await begin(world, operation);
    world.plan.set([]);
    const status = await operation.run(world);
    const gatewayPid = world.gateway.pid;
    const reached = await reach(world);
    const left = await leftovers(world);
    if (left.length > 0) throw new Error(`Without any crash it leaves ${left.join(', ')}.`);
    const passed = world.plan.passed();
    await world.gateway.kill();
    world.plan.set([]);
    await reach(world);
    const restart = countPoints(world.plan.passed());
    return { operation, scene, old, new: reached, status, passed, gatewayPid, restart };
  } finally {
    await world.gateway.kill();
    world.remove();
  }
}

/** What there is before the operation; null when there is no gateway before. */
async function begin(world: World, { starts }: Operation): Promise<Observation | null> {
  if (!starts) await world.start();
  world.oldToken = tokenIn(world.layout.dataDir) ?? '';
  return starts ? null : observe(world);
}

async function reach(world: World): Promise<Observation> {
  if (!world.gateway.isRunning) await world.start();
  return observe(world);
}

export async function crashRound(reference: Reference, crashes: Crash[], folder: string): Promise<RoundResult> {
  const { operation, scene } = reference;
  const world = copyOf(scene, folder);
  const violations: string[] = [];
  let writes: Load | null = null;
  try {
    await begin(world, operation);
    if (isLoaded(operation, crashes)) {
      writes = new Load(world.gateway, { apps: ['main'], clients: 1 });
      await writes.more(WARM_WRITES);
    }
    world.plan.set(crashes);
    const { pid } = world.gateway;
    const first = await operation.run(world).catch(() => null);
    const seen = await settle(world);
    const missed = world.plan.pending();
    if (missed > 0 && !mayMiss(operation, world, crashes, pid))
      violations.push(`${missed} of ${crashes.length} crashes never came.`);
    if (missed > 0) world.plan.cancel();
    // The first is the end of the operation itself.
    const repair = afterCrash(world.plan.passed(), crashes[0] as Crash);
    const outcome = judge(seen, reference);
    if (outcome === 'neither')
      violations.push(`It is neither old nor new: ${JSON.stringify(seen)}; the operation had answered ${first}.`);
    if (outcome === 'old' && first === reference.status && !isDeepStrictEqual(reference.old, reference.new))
      violations.push(`The operation answered ${first} and did not take place.`);
    if (writes !== null) {
      const again = await within(REACH_MS, writes.more(WARM_WRITES));
      if (again === 'late') violations.push('No write is acknowledged any more.');
    }
    await doAgain(world, reference, outcome, violations);
    await writes?.stop();
    violations.push(...(await complaints(world)));
    const left = await leftovers(world);
    const code = await world.gateway.stop();
    if (code !== 0) violations.push(`The gateway stopped with code ${code}: ${world.gateway.log.slice(-500)}`);
    if (left.length > 0) {
      // What a process other than the gateway left, and what the gateway cannot know to be left, goes when it next starts.
      await world.start();
      violations.push(...(await leftovers(world)).map((what) => `Left over even after another start: ${what}.`));
      await world.gateway.stop();
    }
    if (writes !== null) {
      const { acknowledged, sent } = writes;
      // What was there before this load is not its business.
      sent.set('first', { app: 'main', action: 'put', key: 'first', value: 1, daemon: 0, sentAt: 0, answeredAt: 0 });
      violations.push(...writes.violations, ...verify(world.layout.dataDir, { acknowledged, sent }).violations);
    }
    return { violations, outcome, repair, acknowledged: writes?.acknowledged.length ?? 0, missed };
  } finally {
    await world.gateway.kill();
    await writes?.stop();
    if (violations.length === 0) world.remove();
  }
}

/** Whether writes go on meanwhile: not where they would pass the points that are to be crashed. */
export function isLoaded({ starts, quiet }: Operation, crashes: Crash[]): boolean {
  return !starts && !quiet && !crashes.some(({ point }) => isOfData(point));
}

/** A commit or a checkpoint. */
export function isOfData(point: string): boolean {
  return /\.sqlite(-wal)?$/.test(point);
}

/** Starts the gateway as often as the planned crashes need, until everything answers. */
async function settle(world: World): Promise<Observation> {
  for (let starts = 0; ; starts++) {
    try {
      await gone(world);
      const seen = await reach(world);
      await leftovers(world);
      return seen;
    } catch (error) {
      await gone(world);
      if (world.gateway.isRunning || starts >= STARTS) throw error;
    }
  }
}

/** In a folder that goes for good: its files are removed several at a time, in any order. */
export function isOfRemoval(point: string): boolean {
  return /^(?:unlink|rmdir) (?:tmp|trash\/\.[^/]+\.tmp)\//.test(point);
}

/**
 * Whether a second crash may fail to come: when it is at a file that was removed before the first one this time; and when the
 * first took the writer alone, for then it is a matter of time whether the supervisor ends the operation at once, as its repair
 * would have, or refuses it. `pid` is the supervisor's.
 */
function mayMiss(operation: Operation, world: World, crashes: Crash[], pid: number): boolean {
  const [first] = crashes as [Crash];
  if (crashes.length < 2 || world.plan.pending() === crashes.length) return false;
  if (crashes.every(({ point }) => isOfRemoval(point))) return true;
  if (operation.starts || operation.name === 'token rotation' || first.mode === 'tree') return false;
  const passings = world.plan.passed().filter(({ point }) => point === first.point);
  return passings[first.passing - 1]?.pid !== pid;
}

/** A process that was killed is seen to be gone a moment later. */
async function gone({ gateway }: World): Promise<void> {
  if (!isRunning(gateway.pid)) await gateway.exited();
  await pause(0);
}

/** The same once more takes effect, whatever became of the first time; adds what is wrong to `violations`. */
async function doAgain(
  world: World,
  reference: Reference,
  outcome: RoundResult['outcome'],
  violations: string[],
): Promise<void> {
  const status = await reference.operation.run(world);
  const expected = outcome === 'old' ? [reference.status] : [reference.status, ...reference.operation.again];
  if (!expected.includes(status)) violations.push(`Done again after ${outcome}, it answers ${status}.`);
  const seen = await reach(world);
  if (judge(seen, reference) !== 'new')
    violations.push(`Done again after ${outcome}, it is not new: ${JSON.stringify(seen)}.`);
}

function judge(seen: Observation, reference: Reference): RoundResult['outcome'] {
  if (isDeepStrictEqual(seen, reference.new)) return 'new';
  if (isDeepStrictEqual(seen, reference.old)) return 'old';
  return reference.operation.prunes && isUnpruned(seen, reference) ? 'new' : 'neither';
}

/** New, with old versions that the next upload will prune. */
function isUnpruned(seen: Observation, reference: Reference): boolean {
  const apps = seen.apps.map((app) => {
    const [before, after] = [reference.old, reference.new].map((one) => one?.apps.find(({ id }) => id === app.id));
    const kept = app.versions.filter((version) => after?.versions.includes(version));
    const known = app.versions.every((one) => after?.versions.includes(one) || before?.versions.includes(one));
    return known ? { ...app, versions: kept } : app;
  });
  return isDeepStrictEqual({ ...seen, apps }, reference.new);
}

function afterCrash(passed: Passed[], { point, passing }: Crash): Passed[] {
  let seen = 0;
  return passed.slice(passed.findIndex((one) => one.point === point && ++seen === passing) + 1);
}

export function countPoints(passed: Passed[]): Counts {
  const counts = new Counts();
  for (const { point } of passed) counts.count(point);
  return counts;
}
