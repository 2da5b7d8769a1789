/** Crashes every operation that changes files at each of its points, and the repair after it at each of the repair's. */
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Campaign, CampaignContext, CampaignReport } from '../campaign.ts';
import { drawOperations, pickSome } from './draw.ts';
import { OPERATIONS, type Operation } from './operations.ts';
import { expectedIn, FILES, kindOf, POINTS } from './points.ts';
import { countPoints, crashRound, type Reference, type RoundResult, rehearse } from './round.ts';
import { makeScenes, type SceneName } from './scenes.ts';
import type { Crash, Scene } from './world.ts';

/** Rounds at a time. */
const CONCURRENCY = 4;
const SMOKE_ROUNDS = 10;
/** Passings of a point in one operation that get a round each: what comes more often comes as often as the load writes. */
const PASSINGS = 4;
/** Written before every transaction, most of which are the load's: only the first is crashed. */
const COMMIT_POINTS = ['commit.due', 'commit.done'];
/** Points that the jobs process passes. */
const JOB_POINT = /^(?:ingest|git|seed)\./;
const OTHER_DISK = '/dev/shm';

type Job = { operation: Operation; reference: Reference; crashes: Crash[] };

export const crash: Campaign = {
  name: 'crash',
  question: 'Is everything old or new, and whole, after a crash between any two steps of an operation?',
  run,
};

async function run(context: CampaignContext): Promise<CampaignReport> {
  const folder = context.newFolder();
  const otherDisk = hasOtherDisk(folder) ? mkdtempSync(join(OTHER_DISK, 'svc-crash-')) : null;
  try {
    const { only, extent, random } = context;
    const named = OPERATIONS.filter(({ name }) => only === null || name.includes(only));
    const possible = named.filter(({ scene }) => otherDisk !== null || scene !== 'other-disk');
    const operations = extent === 'smoke' ? drawOperations(possible, () => random.next()) : possible;
    const wanted = operations.map(({ scene }) => scene);
    const scenes = await makeScenes(join(folder, 'scenes'), wanted, otherDisk);
    const skipped = named.filter((one) => !possible.includes(one));
    return await new Run(context, folder, scenes).all(operations, skipped);
  } finally {
    if (otherDisk !== null) rmSync(otherDisk, { recursive: true, force: true });
  }
}

class Run {
  readonly #context: CampaignContext;
  readonly #folder: string;
  readonly #scenes: Map<SceneName, Scene>;
  readonly #report: CampaignReport = { figures: [], violations: [], skipped: [] };
  readonly #outcomes = { old: 0, new: 0, neither: 0 };
  readonly #crashed = new Set<string>();
  #single = 0;
  #double = 0;
  #missed = 0;
  #acknowledged = 0;
  #rounds = 0;

  constructor(context: CampaignContext, folder: string, scenes: Map<SceneName, Scene>) {
    this.#context = context;
    this.#folder = folder;
    this.#scenes = scenes;
  }

  async all(operations: Operation[], skipped: Operation[]): Promise<CampaignReport> {
    const { random, extent, rounds, only, progress } = this.#context;
    const jobs: Job[] = [];
    for (const { name } of skipped)
      this.#report.skipped.push(`"${name}": ${OTHER_DISK} is not another file system than the temporary folder.`);
    await inParallel(operations, async (operation) => {
      const reference = await rehearse(operation, this.#sceneOf(operation), this.#newFolder('rehearsal'));
      this.#checkPoints(operation, reference);
      for (const crash of crashesOf(operation, reference)) jobs.push({ operation, reference, crashes: [crash] });
    });
    jobs.sort((a, b) => OPERATIONS.indexOf(a.operation) - OPERATIONS.indexOf(b.operation));
    const limit = rounds ?? (extent === 'smoke' ? SMOKE_ROUNDS : jobs.length);
    const chosen = pickSpread(jobs, limit, () => random.next());
    progress(`${jobs.length} crashes in ${operations.length} operations, of which ${chosen.length} are done`);
    const repairs: Job[] = [];
    await inParallel(chosen, async (job) => {
      const result = await this.#round(job);
      if (result === null) return;
      this.#single++;
      repairs.push(...repairCrashes(job, result).map((crash) => ({ ...job, crashes: [...job.crashes, crash] })));
    });
    const second = limit < jobs.length ? pickSome(repairs, Math.ceil(limit / 4), () => random.next()) : repairs;
    progress(`${repairs.length} crashes in the repairs, of which ${second.length} are done`);
    await inParallel(second, async (job) => {
      const result = await this.#round(job);
      if (result === null) return;
      if (result.missed > 0) this.#missed++;
      else this.#double++;
    });
    if (limit >= jobs.length && only === null) this.#checkRepairs();
    return this.#close(operations.length, jobs.length, repairs.length);
  }

  async #round(job: Job): Promise<RoundResult | null> {
    const { operation, reference, crashes } = job;
    const name = `${operation.name}, ${crashes.map(describe).join(', then ')}`;
    try {
      const result = await crashRound(
        operation,
        this.#sceneOf(operation),
        reference,
        crashes,
        this.#newFolder('round'),
      );
      this.#outcomes[result.outcome]++;
      this.#acknowledged += result.acknowledged;
      for (const { point } of crashes.slice(0, crashes.length - result.missed)) this.#crashed.add(point);
      this.#checkOutcome(job, result, name);
      for (const violation of result.violations) this.#violated(`${name}: ${violation}`);
      if (process.env.SVC_CRASH_VERBOSE) this.#context.progress(`${name}: ${result.outcome}`);
      return result;
    } catch (error) {
      this.#violated(`${name}: it does not come back: ${(error as Error).message}`);
      return null;
    }
  }

  /** The tables say what each operation passes: a step that was moved or added must be entered there. */
  #checkPoints({ name }: Operation, { passed }: Reference): void {
    const points = new Set(passed.map(({ point }) => point));
    const kinds = new Set([...points].map(kindOf));
    for (const point of expectedIn(name)) {
      if (!points.has(point) && !kinds.has(point))
        this.#violated(`"${name}" does not pass ${point}, as points.ts says it does.`);
    }
    for (const point of points) {
      if (/^file\.(?!removed)/.test(point) && !(point.slice(point.indexOf(':') + 1) in FILES))
        this.#violated(`"${name}" passes ${point}: FILES in points.ts does not name this file.`);
    }
  }

  #checkOutcome({ operation, crashes }: Job, { outcome }: RoundResult, name: string): void {
    const [{ point, passing, mode }] = crashes as [Crash];
    const row = POINTS[kindOf(point)];
    // What the jobs process was at when it alone died is done again, or refused: by time.
    if (mode === 'process' && JOB_POINT.test(point)) return;
    if (crashes.length > 1 || passing > 1 || row?.in !== operation.name || row.repair) return;
    if ((row.outcome === 'old' || row.outcome === 'new') && row.outcome !== outcome)
      this.#violated(`${name}: it is ${outcome} afterwards; points.ts says ${row.outcome}.`);
  }

  #checkRepairs(): void {
    const kinds = new Set([...this.#crashed].map(kindOf));
    for (const point of Object.keys(POINTS)) {
      if (!kinds.has(point)) this.#violated(`Nothing was crashed at ${point}.`);
    }
  }

  #violated(text: string): void {
    this.#report.violations.push(text);
    this.#context.progress(text);
  }

  #close(operations: number, jobs: number, repairs: number): CampaignReport {
    const { old, new: reached, neither } = this.#outcomes;
    const kinds = new Set([...this.#crashed].map(kindOf));
    this.#report.figures.push(
      { name: 'operations', value: `${operations} of ${OPERATIONS.length}` },
      { name: 'crash points, of those in the sources', value: `${kinds.size} of ${Object.keys(POINTS).length}` },
      { name: 'crash points, told apart by file', value: String(this.#crashed.size) },
      { name: 'rounds with one crash', value: `${this.#single} of ${jobs}` },
      { name: 'rounds with a second crash in the repair', value: `${this.#double} of ${repairs}` },
      { name: 'second crashes that the repair did not come to', value: String(this.#missed) },
      { name: 'afterwards old / new / neither', value: `${old} / ${reached} / ${neither}` },
      { name: 'writes acknowledged meanwhile', value: String(this.#acknowledged) },
    );
    return this.#report;
  }

  #sceneOf({ scene }: Operation): Scene {
    return this.#scenes.get(scene) as Scene;
  }

  #newFolder(what: string): string {
    return join(this.#folder, `${what}-${++this.#rounds}`);
  }
}

/** Each passing of each point; those of the writer and of jobs with the whole tree as well, for then nobody is left to heal it. */
function crashesOf({ name }: Operation, { passed, gatewayPid }: Reference): Crash[] {
  const crashes: Crash[] = [];
  const counts = new Map<string, number>();
  for (const { point, pid } of passed) {
    const passing = (counts.get(point) ?? 0) + 1;
    counts.set(point, passing);
    if (passing > (COMMIT_POINTS.includes(point) ? 1 : PASSINGS)) continue;
    crashes.push({ point, passing, mode: 'process' });
    if (pid !== gatewayPid && name !== 'token rotation') crashes.push({ point, passing, mode: 'tree' });
  }
  return crashes;
}

/** The points of a repair: what a start after a crash passes more often than one after which there is nothing to repair. */
function repairCrashes({ reference }: Job, { repair }: RoundResult): Crash[] {
  const crashes: Crash[] = [];
  for (const [point, count] of countPoints(repair)) {
    if (COMMIT_POINTS.includes(point)) continue;
    const unusual = count - (reference.restart.get(point) ?? 0);
    for (let passing = 1; passing <= Math.min(unusual, PASSINGS); passing++)
      crashes.push({ point, passing, mode: 'process' });
  }
  return crashes;
}

function describe({ point, passing, mode }: Crash): string {
  return `${point}${passing > 1 ? ` (${passing}.)` : ''}${mode === 'tree' ? ' of the whole tree' : ''}`;
}

/**
 * Like `pickSome`, with one of each operation, then one of each point that is not among the chosen yet, so that few rounds
 * reach most.
 */
function pickSpread(jobs: Job[], count: number, chance: () => number): Job[] {
  const chosen = new Set<Job>();
  const more = (from: Job[]): void => {
    for (const job of pickSome(from, count - chosen.size, chance)) chosen.add(job);
  };
  const left = () => shuffled(jobs, chance).filter((job) => !chosen.has(job));
  more(firstOfEach(left(), ({ operation }) => operation.name));
  const known = new Set([...chosen].map(pointOf));
  more(firstOfEach(left(), pointOf).filter((job) => !known.has(pointOf(job))));
  more(left());
  return jobs.filter((job) => chosen.has(job));
}

const pointOf = ({ crashes: [first] }: Job): string => kindOf((first as Crash).point);

function firstOfEach(jobs: Job[], key: (job: Job) => string): Job[] {
  const seen = new Set<string>();
  return jobs.filter((job) => !seen.has(key(job)) && seen.add(key(job)));
}

function shuffled<T>(from: T[], chance: () => number): T[] {
  return from
    .map((item) => ({ item, order: chance() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}

async function inParallel<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

function hasOtherDisk(folder: string): boolean {
  return existsSync(OTHER_DISK) && statSync(OTHER_DISK).dev !== statSync(folder).dev;
}
