/** Crashes every operation at each of its calls that change files, and the repair after it at each of the repair's. */
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { inParallel } from '../../../storage/files/atomic-file.ts';
import { Counts } from '../../../testing/clients.ts';
import type { Random } from '../../../testing/random.ts';
import { compileShim, whyNoShim } from '../../../testing/shim/compile.ts';
import type { Crash } from '../../../testing/shim/crash.ts';
import type { Campaign, CampaignContext } from '../campaign.ts';
import { drawOperations, OPERATIONS } from './operations.ts';
import {
  countPoints,
  crashRound,
  isLoaded,
  isOfData,
  isOfRemoval,
  type Reference,
  type RoundResult,
  rehearse,
} from './round.ts';
import { makeScenes, needsOtherDisk, type Operation } from './scenes.ts';
import type { Scene } from './world.ts';

/** Rounds at a time. */
const CONCURRENCY = 4;
const SMOKE_ROUNDS = 10;
/** Points of a kind in one operation that get a round each: there are as many as an app has files. */
const OF_A_KIND = 4;
const OTHER_DISK = '/dev/shm';

/**
 * `step` is the index of the first crash among the points of the rehearsal; null where what died is healed by who lives, so that
 * time decides what is found.
 */
type Job = { reference: Reference; crashes: Crash[]; step: number | null };

export const crash: Campaign = {
  name: 'crash',
  question: 'Is everything old or new, and whole, after a crash between any two steps of an operation?',
  whyNot: whyNoShim,
  run,
};

async function run({ only, random, extent, rounds, report, progress, ...context }: CampaignContext): Promise<void> {
  const folder = context.newFolder();
  const crashed = new Set<string>();
  /** The last step after which an operation was old, and the first after which it was new. */
  const turns = new Map<Operation, { old: number; new: number }>();
  let folders = 0;

  async function round(job: Job): Promise<RoundResult | null> {
    const { reference, crashes } = job;
    const name = `${reference.operation.name}, ${crashes.map(describe).join(', then ')}`;
    try {
      const result = await crashRound(reference, crashes, newFolder('round'));
      report.add(`afterwards: ${result.outcome}`);
      report.add('writes acknowledged meanwhile', result.acknowledged);
      for (const { point } of crashes.slice(0, crashes.length - result.missed)) crashed.add(point);
      checkOutcome(job, result);
      for (const violation of result.violations) violated(`${name}: ${violation}`);
      if (process.env.SVC_CRASH_VERBOSE) progress(`${name}: ${result.outcome}`);
      return result;
    } catch (error) {
      violated(`${name}: it does not come back: ${(error as Error).message}`);
      return null;
    }
  }

  /** What makes an operation new stays: a crash after a later step never finds it old. */
  function checkOutcome({ reference: { operation }, crashes, step }: Job, { outcome }: RoundResult): void {
    if (crashes.length > 1 || step === null || outcome === 'neither') return;
    const turn = turns.get(operation) ?? { old: -1, new: Number.POSITIVE_INFINITY };
    turns.set(operation, turn);
    if (outcome === 'old') turn.old = Math.max(turn.old, step);
    else turn.new = Math.min(turn.new, step);
    if (turn.old > turn.new)
      violated(`${operation.name}: it is new after step ${turn.new}, and old after step ${turn.old}.`);
  }

  function violated(text: string): void {
    report.violations.push(text);
    progress(text);
  }

  function newFolder(what: string): string {
    return join(folder, `${what}-${++folders}`);
  }

  const shim = join(folder, 'crash.so');
  compileShim('crash.c', shim);
  const otherDisk = hasOtherDisk(folder) ? mkdtempSync(join(OTHER_DISK, 'svc-crash-')) : null;
  try {
    const named = OPERATIONS.filter(({ name }) => only === null || name.includes(only));
    const possible = named.filter(({ scene }) => otherDisk !== null || !needsOtherDisk(scene));
    const operations = extent === 'smoke' ? drawOperations(possible, random) : possible;
    const wanted = operations.map(({ scene }) => scene);
    const scenes = await makeScenes(join(folder, 'scenes'), wanted, otherDisk, shim);
    for (const { name } of named.filter((one) => !possible.includes(one)))
      report.skipped.push(`"${name}": ${OTHER_DISK} is not another file system than the temporary folder.`);
    report.figure('operations', `${operations.length} of ${OPERATIONS.length}`);
    const jobs: Job[] = [];
    await inParallel(operations, CONCURRENCY, async (operation) => {
      const reference = await rehearse(operation, scenes.get(operation.scene) as Scene, newFolder('rehearsal'));
      if (reference.passed.length === 0) violated(`"${operation.name}" changes no file.`);
      jobs.push(...jobsOf(reference));
    });
    jobs.sort((a, b) => OPERATIONS.indexOf(a.reference.operation) - OPERATIONS.indexOf(b.reference.operation));
    const limit = rounds ?? (extent === 'smoke' ? SMOKE_ROUNDS : jobs.length);
    const chosen = pickSpread(jobs, limit, random);
    progress(`${jobs.length} crashes in ${operations.length} operations, of which ${chosen.length} are done`);
    const inRepair = new Map<Job, Job[]>();
    await inParallel(chosen, CONCURRENCY, async (job) => {
      const result = await round(job);
      if (result === null) return;
      report.add(`rounds with one crash, of ${jobs.length}`);
      inRepair.set(job, repairJobs(job, result));
    });
    const repairs = chosen.flatMap((job) => inRepair.get(job) ?? []);
    const second = limit < jobs.length ? pickSpread(repairs, Math.ceil(limit / 4), random) : repairs;
    progress(`${repairs.length} crashes in the repairs, of which ${second.length} are done`);
    await inParallel(second, CONCURRENCY, async (job) => {
      const result = await round(job);
      if (result === null) return;
      const isMissed = result.missed > 0;
      report.add(isMissed ? 'second crashes that the repair did not come to' : `second crashes, of ${repairs.length}`);
    });
    report.figure('calls at which something was crashed', crashed.size);
  } finally {
    if (otherDisk !== null) rmSync(otherDisk, { recursive: true, force: true });
  }
}

/** Those of the writer and of jobs with the whole tree as well, for then nobody is left to heal it. */
function jobsOf(reference: Reference): Job[] {
  const jobs: Job[] = [];
  const passings = new Counts();
  const kinds = new Counts();
  for (const [step, { point, pid }] of reference.passed.entries()) {
    const passing = passings.count(point);
    if (kinds.count(kindOf(point)) > OF_A_KIND) continue;
    const alone = pid === reference.gatewayPid || reference.operation.name === 'token rotation';
    jobs.push({ reference, crashes: [{ point, passing, mode: 'process' }], step: alone ? step : null });
    if (!alone) jobs.push({ reference, crashes: [{ point, passing, mode: 'tree' }], step });
  }
  return jobs;
}

/** `create tmp/upload-1/code/app.json` → `create tmp/upload-1`: of apps and their versions it goes deeper. */
function kindOf(point: string): string {
  return point
    .split('/')
    .slice(0, point.includes(' tmp/') || isOfRemoval(point) ? 2 : 5)
    .join('/');
}

/** The points of a repair: what a start after a crash passes more often than one after which there is nothing to repair. */
function repairJobs(job: Job, { repair }: RoundResult): Job[] {
  const { reference, crashes } = job;
  const found: Job[] = [];
  for (const [point, count] of countPoints(repair)) {
    // Those that the load makes come at any time.
    if (isOfData(point) && isLoaded(reference.operation, crashes)) continue;
    const unusual = count - (reference.restart.get(point) ?? 0);
    for (let passing = 1; passing <= Math.min(unusual, OF_A_KIND); passing++)
      found.push({ ...job, crashes: [...crashes, { point, passing, mode: 'process' }] });
  }
  return found;
}

function describe({ point, passing, mode }: Crash): string {
  return `${point}${passing > 1 ? ` (${passing}.)` : ''}${mode === 'tree' ? ' of the whole tree' : ''}`;
}

/** One of each operation goes first, then those at a kind of call that is not among the chosen yet, so that few rounds reach most. */
function pickSpread(jobs: Job[], count: number, random: Random): Job[] {
  const shuffled = random.shuffled(jobs);
  const ofEach = firstOfEach(shuffled, ({ reference }) => reference.operation.name);
  const ofKinds = firstOfEach([...ofEach, ...shuffled], ({ crashes }) => kindOf((crashes.at(-1) as Crash).point));
  const chosen = new Set([...new Set([...ofEach, ...ofKinds, ...shuffled])].slice(0, count));
  return jobs.filter((job) => chosen.has(job));
}

function firstOfEach(jobs: Job[], key: (job: Job) => string): Job[] {
  const seen = new Set<string>();
  return jobs.filter((job) => !seen.has(key(job)) && seen.add(key(job)));
}

function hasOtherDisk(folder: string): boolean {
  return existsSync(OTHER_DISK) && statSync(OTHER_DISK).dev !== statSync(folder).dev;
}
