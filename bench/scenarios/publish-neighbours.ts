/** What calls of other live apps notice of publications, beside what they notice of a loop that computes as much. */

import { cpuMs } from '../../testing/processes.ts';
import { type Author, openAuthor, PUBLISHED } from '../author.ts';
import { ROWS } from '../bench-app.ts';
import { accompanied, onGateway } from '../contenders.ts';
import { type Context, sized } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact, type LoadMeasurement } from '../measurements.ts';
import { startBusyLoop } from '../servers.ts';
import { median } from '../statistics.ts';
import { takeTurnsBeside } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { read, write } from './workloads.ts';

const SCENARIO = 'publish';
const CALLED = 3;
const CONNECTIONS = 8;
const ROUNDS = 8;
/** A round must be long against a publication. */
const ROUND_SECONDS = 2;
/** Publications that their processor time is taken from. */
const COUNTED = { full: 30, smoke: 3 };
const WHILE = 'while publishing';
const LOOP = 'beside a loop';
const ALONE = 'alone';
const QUESTION = 'How late are reads and writes of other apps while one is published again and again, {n} in flight?';

type Store = { daemon: Daemon; apps: string[] };

export async function neighbours(context: Context, store: Store): Promise<(LoadMeasurement | Finding)[]> {
  const { daemon } = store;
  const alone = onGateway(ALONE, daemon, context, { requests: requestsFor(store) });
  const author = await openAuthor(store);
  try {
    const busyMs = await processorTime(daemon, author, sized(context, COUNTED));
    const before = author.times.length;
    const publishing = accompanied(WHILE, alone, () => author.goOn());
    // It computes as much as the publications, at their pace; the first of those come before its first turn.
    const besideLoop = accompanied(LOOP, alone, () => startBusyLoop(busyMs, mean(author.cycles.slice(before))));
    const { measured, p99s, late } = await takeTurnsBeside(context, [publishing, besideLoop, alone], {
      scenario: SCENARIO,
      question: QUESTION,
      durability: 'full',
      connections: CONNECTIONS,
      rounds: ROUNDS,
      roundSeconds: Math.max(context.options.seconds, ROUND_SECONDS),
    });
    const detail = `${CONNECTIONS} in flight on ${CALLED} apps`;
    const during = author.times.slice(before);
    return [
      measured,
      ...[[WHILE, ALONE] as const, [LOOP, ALONE] as const, [WHILE, LOOP] as const].map(([one, other]) =>
        late(`p99 ${one}, of p99 ${other}`, one, other, detail),
      ),
      ...[WHILE, LOOP, ALONE].map((name) =>
        fact(`p99 ${name}, median of the rounds`, median(p99s(name)), 'ms', detail),
      ),
      fact('publication under that load, p50', median(during), 'ms', `${during.length}, one after the other`),
      fact('processor time of a publication', busyMs, 'ms', 'without that load, with the PUT before it'),
    ];
  } finally {
    await author.close();
  }
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
async function processorTime(daemon: Daemon, author: Author, times: number): Promise<number> {
  const used = () => daemon.processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  await author.publishNext();
  const before = used();
  for (let i = 0; i < times; i++) await author.publishNext();
  return (used() - before) / times;
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
