/**
 * Contenders under the same load, in turns: a machine whose speed drifts slows all of them, and the ratio of neighbouring
 * rounds holds.
 */

import { Counts } from '../testing/clients.ts';
import { cpuMs, memoryOfAll } from '../testing/processes.ts';
import type { Commits, Contender, Phase } from './contenders.ts';
import { type Context, sized } from './context.ts';
import { type LoadResult, merge } from './load/task.ts';
import {
  type Finding,
  fact,
  type Latencies,
  type LoadMeasurement,
  type RoundResult,
  type SideResult,
} from './measurements.ts';
import type { Durability } from './notes.ts';
import { formatInterval, type Interval, median, middleFactor, percentile } from './statistics.ts';

/** At the start of each round: connections are opened and are not counted. */
const ROUND_WARM_UP_MS = { full: 150, smoke: 50 };

/** What all contenders are asked, in how many rounds, and how many milliseconds of each round are measured. */
export type TurnsOptions = Pick<LoadMeasurement, 'scenario' | 'question' | 'durability' | 'connections'> & {
  rounds: number;
  measureMs: number;
};

/** Every contender has one turn a round; every other round goes through them backwards. `{n}` in the question is the connections. */
export async function takeTurns(
  context: Context,
  contenders: Contender[],
  { rounds, measureMs, question, ...load }: TurnsOptions,
): Promise<LoadMeasurement> {
  const { connections, durability } = load;
  const phase = { connections, warmUpMs: sized(context, ROUND_WARM_UP_MS), measureMs };
  const sides = contenders.map(sideOf);
  const count = () => durability !== null && Promise.all(sides.map((side) => side.count()));
  await count();
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side.round(context, phase);
  }
  await count();
  const results = sides.map((side) => side.result(durability));
  const first = results[0] as SideResult;
  const own = sides[0]?.committed();
  const measured: LoadMeasurement = {
    kind: 'load',
    ...load,
    question: question.replace('{n}', String(connections)),
    sides: Object.fromEntries(results.map((result, i) => [(contenders[i] as Contender).name, result])),
    ratios: Object.fromEntries(
      results.slice(1).map((other, i) => [(contenders[i + 1] as Contender).name, ratioOf(first, other)]),
    ),
    rowsPerCommit: own && own.commits > 0 ? own.rows / own.commits : null,
  };
  context.progress(`  ${summary(measured)}`);
  return measured;
}

function summary({ connections, sides, ratios }: LoadMeasurement): string {
  const rates = Object.entries(sides).map(([name, side]) => {
    const ratio = ratios[name] ? ` (ratio ${ratios[name].estimate.toFixed(2)})` : '';
    return `${name} ${Math.round(side.requestsPerSecond)}/s${ratio}`;
  });
  return `${connections} in flight: ${rates.join(', ')}`;
}

const BESIDE_ROUNDS = 6;

/**
 * A load while something else goes on, beside the same load without it, the last of the contenders, which is warmed up first. `late`
 * makes a fact of how many times as late the p99 of one is as that of another.
 */
export async function takeTurnsBeside(
  context: Context,
  contenders: Contender[],
  {
    roundSeconds,
    rounds: fullRounds = BESIDE_ROUNDS,
    ...load
  }: Omit<TurnsOptions, 'rounds' | 'measureMs'> & { roundSeconds: number; rounds?: number },
) {
  const alone = contenders.at(-1) as Contender;
  await alone.run({
    connections: load.connections,
    warmUpMs: sized(context, { full: 2000, smoke: 100 }),
    measureMs: 1,
  });
  const rounds = sized(context, { full: fullRounds, smoke: 1 });
  const measureMs = 1000 * sized(context, { full: roundSeconds, smoke: context.options.seconds });
  const measured = await takeTurns(context, contenders, { ...load, rounds, measureMs });
  const p99s = (name: string): number[] => (measured.sides[name] as SideResult).rounds.map(({ p99 }) => p99);
  const late = (name: string, one: string, other: string, detail: string): Finding => {
    const factor = middleFactor(p99s(one).map((ms, i) => ms / (p99s(other)[i] as number)));
    const how = `${detail}, rounds of each in turns: ${rounds}; ${formatInterval(factor)}`;
    return fact(name, factor.estimate, '×', how);
  };
  return { measured, p99s, late };
}

function ratioOf(one: SideResult, other: SideResult): Interval {
  return middleFactor(
    one.rounds.map((round, i) => round.requestsPerSecond / (other.rounds[i] as RoundResult).requestsPerSecond),
  );
}

/** One contender's rounds. */
function sideOf(contender: Contender) {
  const results: LoadResult[] = [];
  const cpu = new Counts();
  const delays: { p99: number; max: number }[] = [];
  const counts: Commits[] = [];

  async function round(context: Context, phase: Phase): Promise<void> {
    const processes = contender.processes();
    await contender.prepare?.();
    await contender.takeEventLoop?.();
    const before = processes.map(({ pid }) => cpuMs(pid));
    const result = await contender.run(phase);
    // Of a process that was replaced meanwhile nothing is known.
    for (const [i, { name, pid }] of processes.entries())
      cpu.count(name, Math.max(0, cpuMs(pid) - (before[i] as number)));
    cpu.count('load', result.cpuMs);
    const delay = await contender.takeEventLoop?.();
    if (delay) delays.push(delay);
    results.push(result);
    if (result.failed > 0)
      context.progress(`  ${result.failed} answers were not as they should; the first was ${result.firstFailure}`);
  }

  async function count(): Promise<void> {
    const commits = await contender.commits?.();
    if (commits) counts.push(commits);
  }

  /** Between the two counts; null for who does not count. */
  function committed(): Commits | null {
    const [before, after] = counts;
    return before && after ? { commits: after.commits - before.commits, rows: after.rows - before.rows } : null;
  }

  function result(durability: Durability | null): SideResult {
    const counted = committed();
    const { latencies, delivery, requests, events, failed } = merge(results);
    const rounds = results.map(roundOf);
    const requestsPerSecond = median(rounds.map((round) => round.requestsPerSecond));
    const synced = durability === 'full' && counted !== null && counted.commits > 0;
    return {
      rounds,
      requestsPerSecond,
      ...latenciesOf(latencies),
      p999: percentile(latencies, 0.999),
      requests,
      events,
      failed,
      cpu: Object.fromEntries([...cpu].map(([name, used]) => [name, (used * 1000) / requests])),
      memory: memoryOfAll(contender.processes()).pss,
      fsyncsPerSecond: synced ? (counted.commits / requests) * requestsPerSecond : null,
      eventLoop:
        delays.length === 0
          ? null
          : { p99: median(delays.map(({ p99 }) => p99)), max: Math.max(...delays.map(({ max }) => max)) },
      delivery: delivery.length === 0 ? null : latenciesOf(delivery),
    };
  }

  return { round, count, committed, result };
}

function roundOf({ latencies, answered, elapsedMs }: LoadResult): RoundResult {
  const { p50, p99 } = latenciesOf(latencies);
  return { requestsPerSecond: (answered / elapsedMs) * 1000, p50, p99 };
}

function latenciesOf(times: number[]): Latencies {
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), worst: percentile(times, 1) };
}
