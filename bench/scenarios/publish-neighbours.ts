/** What calls of other live apps notice of publications, beside what they notice of a loop that computes as much. */
import { ROWS } from '../bench-app.ts';
import { accompanied, type Contender, GatewayContender } from '../contenders.ts';
import type { Context } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Fact, factsOf, type LoadMeasurement, type SideResult } from '../measurements.ts';
import { cpuMs } from '../process-usage.ts';
import { PUBLISHED, Publisher } from '../publisher.ts';
import { BusyLoop } from '../servers.ts';
import { formatInterval, median, middleFactor } from '../statistics.ts';
import { type Turns, takeTurns } from '../turns.ts';
import { askedAt, httpBytes } from '../workload.ts';
import { read, write } from './tools.ts';

const SCENARIO = 'publish';
const fact = factsOf(SCENARIO);
const CALLED = 3;
const CONNECTIONS = 8;
const ROUNDS = 8;
const SMOKE_ROUNDS = 1;
/** A round must be long against a publication. */
const ROUND_SECONDS = 2;
/** Publications that their processor time is taken from. */
const COUNTED = 30;
const SMOKE_COUNTED = 3;
const WHILE = 'while publishing';
const LOOP = 'beside a loop';
const ALONE = 'alone';
const QUESTION = 'How late are reads and writes of other apps while one is published again and again, {n} in flight?';

type Store = { daemon: Daemon; apps: string[] };

export async function neighbours(context: Context, store: Store): Promise<(LoadMeasurement | Fact)[]> {
  const { smoke, seconds } = context.options;
  const { daemon } = store;
  const alone = new GatewayContender(ALONE, daemon, context, { requests: requestsFor(store) });
  const publisher = await Publisher.open(store);
  const loop = await BusyLoop.start();
  try {
    const busyMs = await processorTime(daemon, publisher, smoke ? SMOKE_COUNTED : COUNTED);
    await alone.run({ connections: CONNECTIONS, warmUpMs: smoke ? 100 : 2000, measureMs: 1 });
    const before = publisher.times.length;
    const rounds = smoke ? SMOKE_ROUNDS : ROUNDS;
    const roundSeconds = smoke ? seconds : Math.max(seconds, ROUND_SECONDS);
    const turns = await takeTurns(
      { ...context, options: { ...context.options, seconds: roundSeconds * rounds } },
      // The first publications come before the first turn of the loop, which takes their pace.
      [whilePublishing(alone, publisher), besideLoop(alone, loop, busyMs, () => publisher.cycles.slice(before)), alone],
      { connections: CONNECTIONS, rounds, durability: 'full' },
    );
    const question = askedAt(QUESTION, [CONNECTIONS]);
    const during = publisher.times.slice(before);
    return [
      { kind: 'load', scenario: SCENARIO, question, durability: 'full', connections: CONNECTIONS, ...turns },
      ...latenessFacts(context, turns, rounds),
      fact('publication under that load, p50', median(during), 'ms', `${during.length}, one after the other`),
      fact('processor time of a publication', busyMs, 'ms', 'without that load, with the PUT before it'),
    ];
  } finally {
    await loop.stop();
    await publisher.close();
  }
}

function whilePublishing(alone: GatewayContender, publisher: Publisher): Contender {
  return accompanied(WHILE, alone, () => publisher.goOn());
}

/** A loop that computes as much as the publications, at their pace. */
function besideLoop(alone: GatewayContender, loop: BusyLoop, busyMs: number, cycles: () => number[]): Contender {
  return accompanied(LOOP, alone, () => {
    loop.compute({ busyMs, everyMs: mean(cycles()) });
    return () => loop.rest();
  });
}

function latenessFacts(context: Context, { sides }: Turns, rounds: number): Fact[] {
  const p99s = (name: string): number[] => (sides[name] as SideResult).rounds.map(({ p99 }) => p99);
  const detail = `${CONNECTIONS} in flight on ${CALLED} apps, rounds of each in turns: ${rounds}`;
  const quotient = (one: string, other: string): Fact => {
    const factor = middleFactor(p99s(one).map((ms, i) => ms / (p99s(other)[i] as number)));
    const name = `p99 ${one}, of p99 ${other}`;
    context.progress(`  ${name}: ${formatInterval(factor)}`);
    return fact(name, factor.estimate, '×', `${detail}; ${formatInterval(factor)}`);
  };
  return [
    quotient(WHILE, ALONE),
    quotient(LOOP, ALONE),
    quotient(WHILE, LOOP),
    ...[WHILE, LOOP, ALONE].map((name) => fact(`p99 ${name}, median of the rounds`, median(p99s(name)), 'ms', detail)),
  ];
}

/** Reads and writes of apps that are not published, each of them a hundred times in turn. */
function requestsFor({ daemon, apps }: Store): Buffer[] {
  const called = apps.slice(PUBLISHED, PUBLISHED + CALLED);
  return Array.from({ length: CALLED * 100 }, (_, i) => {
    const call = Math.floor(i / CALLED) % 2 === 0 ? read : write;
    return httpBytes(call((i % ROWS) + 1, called[i % CALLED]).request, daemon.token);
  });
}

/** Milliseconds that all processes of the gateway compute for a publication. */
async function processorTime(daemon: Daemon, publisher: Publisher, times: number): Promise<number> {
  const used = () => daemon.processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  await publisher.publish();
  const before = used();
  for (let i = 0; i < times; i++) await publisher.publish();
  return (used() - before) / times;
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
