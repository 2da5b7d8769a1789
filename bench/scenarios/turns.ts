/** What the gateway adds to an agent's turn, and what many turns at a time leave to other apps; agents and models are stubs. */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createParser } from 'eventsource-parser';
import { APP, packApp, ROWS } from '../bench-app.ts';
import { accompanied, GatewayContender } from '../contenders.ts';
import type { Context, Scenario } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { type Fact, factsOf, type LoadMeasurement, type Measurement, type SideResult } from '../measurements.ts';
import { ROOT } from '../servers.ts';
import { formatInterval, median, middleFactor } from '../statistics.ts';
import { takeTurns } from '../turns.ts';
import { askedAt, httpBytes } from '../workload.ts';
import { read } from './tools.ts';

const SCENARIO = 'turns';
const QUESTION = 'How late are reads of another app while 200 windows stream 50 pieces a second each, {n} in flight?';
const fact = factsOf(SCENARIO);
const TURNS = 50;
const SMOKE_TURNS = 3;
const PIECES = 20;
const WINDOWS = 200;
const SMOKE_WINDOWS = 20;
const PER_SECOND = 50;
/** Callers of the other app, at a rate that the machine has room for: nobody is fast on a machine that is full. */
const CONNECTIONS = 8;
const READ_EVERY_MS = 20;
const ROUNDS = 6;
const SMOKE_ROUNDS = 1;
const ROUND_SECONDS = 3;
const WHILE = 'while windows stream';
const QUIET = 'quiet';
const OTHER = `${APP}-other`;

export const turnsScenario: Scenario = {
  name: SCENARIO,
  question:
    'What does the gateway add to a turn, and how late are other apps while 200 windows stream 50 pieces a second each?',
  run: async (context) => [...(await oneWindow(context)), ...(await manyWindows(context))],
};

/** One agent that is warm, in a process of its own, one turn after the other. */
async function oneWindow(context: Context): Promise<Fact[]> {
  const runners = { stub: { kind: 'acp', command: [process.execPath, join(ROOT, 'testing/stub-agent.mjs')] } } as const;
  const options = {
    dataDir: context.newFolder(),
    config: { ...context.config, runners: structuredClone(runners) as never },
  };
  return await Daemon.use(options, async (daemon) => {
    await daemon.install(APP, await packApp());
    const clock = `clock ${PIECES} 5`;
    for (let i = 0; i < 2; i++) await turn(daemon, 'one', clock);
    const turns: Turn[] = [];
    for (let i = 0; i < (context.options.smoke ? SMOKE_TURNS : TURNS); i++)
      turns.push(await turn(daemon, 'one', clock));
    const startMs = median(turns.map((one) => one.startMs));
    const addedMs = median(turns.flatMap((one) => one.addedMs));
    context.progress(`  start ${startMs.toFixed(1)} ms, added to a piece ${addedMs.toFixed(2)} ms`);
    const detail = `${turns.length} turns of a warm agent, one after the other`;
    return [
      fact('from POST to assistant.start, p50', startMs, 'ms', detail),
      fact('from an agent to its client, p50', addedMs, 'ms', `${detail}, ${PIECES} pieces each`),
    ];
  });
}

/** In a host, whose runner costs next to nothing: what is measured is the gateway. */
async function manyWindows(context: Context): Promise<Measurement[]> {
  const { smoke } = context.options;
  const { config, profileDir } = context;
  const daemon = await Daemon.start({
    dataDir: context.newFolder(),
    config,
    profileDir,
    script: 'bench/chat-host.mjs',
  });
  try {
    for (const app of [APP, OTHER]) await daemon.install(app, await packApp(app));
    await daemon.refresh();
    const requests = Array.from({ length: ROWS }, (_, i) => httpBytes(read(i + 1, OTHER).request, daemon.token));
    const quiet = new GatewayContender(QUIET, daemon, context, { requests, intervalMs: READ_EVERY_MS });
    const rounds = smoke ? SMOKE_ROUNDS : ROUNDS;
    const roundMs = 1000 * (smoke ? context.options.seconds : ROUND_SECONDS);
    const windows = smoke ? SMOKE_WINDOWS : WINDOWS;
    const lost: number[] = [];
    const added: number[] = [];
    const streaming = accompanied(WHILE, quiet, async () => {
      const pieces = Math.ceil((PER_SECOND * roundMs) / 1000);
      const turns = Array.from({ length: windows }, (_, i) => turn(daemon, `w${i}`, `${pieces} ${1000 / PER_SECOND}`));
      // Until all of them stream.
      await wait(smoke ? 0 : 500);
      return async () => {
        for (const { addedMs } of await Promise.all(turns)) {
          lost.push(pieces - addedMs.length);
          added.push(...addedMs);
        }
      };
    });
    await quiet.run({ connections: CONNECTIONS, warmUpMs: smoke ? 100 : 2000, measureMs: 1 });
    const turns = await takeTurns(
      { ...context, options: { ...context.options, seconds: (roundMs * rounds) / 1000 } },
      [streaming, quiet],
      { connections: CONNECTIONS, rounds, durability: null },
    );
    const p99 = (name: string): number[] => (turns.sides[name] as SideResult).rounds.map((round) => round.p99);
    const factor = middleFactor(p99(WHILE).map((ms, i) => ms / (p99(QUIET)[i] as number)));
    const dropped = lost.reduce((sum, count) => sum + count, 0);
    context.progress(`  p99 ${WHILE}, of that when quiet: ${formatInterval(factor)}; ${dropped} pieces lost`);
    const detail = `${windows} windows, ${PER_SECOND} pieces a second each, rounds: ${rounds}`;
    const load: LoadMeasurement = {
      kind: 'load',
      scenario: SCENARIO,
      question: askedAt(QUESTION, [CONNECTIONS]),
      durability: null,
      connections: CONNECTIONS,
      ...turns,
    };
    return [
      load,
      fact(
        'p99 of reads while windows stream, of p99 when quiet',
        factor.estimate,
        '×',
        `${detail}; ${formatInterval(factor)}`,
      ),
      fact('pieces lost', dropped, '', detail),
      fact('from a runner to its client, p50', median(added), 'ms', detail),
    ];
  } finally {
    await daemon.stop();
  }
}

/** From the message on: until `assistant.start` arrived, and how old each piece was when it did. */
type Turn = { startMs: number; addedMs: number[] };

async function turn(daemon: Daemon, windowId: string, message: string): Promise<Turn> {
  const now = () => performance.timeOrigin + performance.now();
  const from = now();
  const result: Turn = { startMs: 0, addedMs: [] };
  let ended = false;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (event === 'assistant.start') result.startMs = now() - from;
      if (event === 'error') throw new Error(`A turn failed: ${data}`);
      if (event === 'end') ended = true;
      if (event !== 'assistant.delta') return;
      const { delta } = JSON.parse(data) as { delta: string };
      for (const sent of delta.trim().split(' ')) result.addedMs.push(now() - Number(sent));
    },
  });
  const answer = await daemon.request('POST', `/svc/${APP}/_chat`, JSON.stringify({ windowId, message }));
  const decoder = new TextDecoder();
  for await (const chunk of answer.body as AsyncIterable<Uint8Array>)
    parser.feed(decoder.decode(chunk, { stream: true }));
  if (!ended) throw new Error(`The stream of a turn in ${windowId} broke off.`);
  return result;
}
