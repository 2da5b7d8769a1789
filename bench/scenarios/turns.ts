/** What the gateway adds to an agent's turn, and what many turns at a time leave to other apps; agents and models are stubs. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { eventReader } from '../../protocol/http/event-stream.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { inParallel } from '../../storage/files/atomic-file.ts';
import { startModelStub } from '../../testing/model-stub.ts';
import { memoryOf } from '../../testing/processes.ts';
import { APP, benchApp, ROWS } from '../bench-app.ts';
import { installAll } from '../compare.ts';
import { accompanied, onGateway } from '../contenders.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact, type LoadMeasurement, timed } from '../measurements.ts';
import { ROOT } from '../servers.ts';
import { median } from '../statistics.ts';
import { takeTurnsBeside } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { read } from './workloads.ts';

const SCENARIO = 'turns';
const QUESTION = 'How late are reads of another app while 200 windows stream 50 pieces a second each, {n} in flight?';
const TURNS = 50;
const PIECES = 20;
const WINDOWS = { full: 200, smoke: 20 };
const PER_SECOND = 50;
/** Callers of the other app, at a rate that the machine has room for: nobody is fast on a machine that is full. */
const CONNECTIONS = 8;
const READ_EVERY_MS = 20;
const ROUND_SECONDS = 3;
/** So much longer than what is measured do turns stream: their beginning and end are other work. */
const LONGER_MS = 2000;
const CODEX = join(ROOT, 'scripts/agents/node_modules/.bin/codex');
const CODEX_TURNS = 20;
const IDLE_WINDOWS = { full: LIMITS.chatWindows, smoke: 20 };
const STARTS = { full: 5, smoke: 1 };
const SETTLE_MS = { full: 1000, smoke: 0 };
const MiB = 1024 * 1024;
const HOST = 'bench/chat-host.mjs';
const WHILE = 'while windows stream';
const QUIET = 'quiet';
const OTHER = `${APP}-other`;

export const turnsScenario: Scenario = {
  name: SCENARIO,
  question:
    'What does the gateway add to a turn, and how late are other apps while 200 windows stream 50 pieces a second each?',
  run: async (context) => [
    ...(await oneWindow(context)),
    ...(await codex(context)),
    ...(await idleWindows(context)),
    // In a host, whose runner costs next to nothing: what is measured is the gateway.
    ...(await withDaemon(context, (daemon) => readBesideWindows(context, daemon), { script: HOST })),
  ],
};

/** One agent that is warm, in a process of its own, one turn after the other. */
async function oneWindow(context: Context): Promise<Finding[]> {
  const runners = { stub: { kind: 'acp', command: [process.execPath, join(ROOT, 'testing/stub-agent.mjs')] } };
  const turns = await warmTurns(context, runners, `clock ${PIECES} 5`, TURNS);
  const detail = `${turns.length} turns of a warm agent, one after the other`;
  return [
    fact('from POST to assistant.start, p50', median(turns.map((one) => one.startMs)), 'ms', detail),
    fact(
      'from an agent to its client, p50',
      median(turns.flatMap((one) => one.addedMs)),
      'ms',
      `${detail}, ${PIECES} pieces each`,
    ),
  ];
}

/** A real agent that is warm: what it takes longer than its model is the agent's and the gateway's time. */
async function codex(context: Context): Promise<Finding[]> {
  if (!existsSync(CODEX)) {
    context.progress('  codex is not installed, so it is left out: npm ci --prefix scripts/agents');
    return [];
  }
  const home = context.newFolder();
  mkdirSync(join(home, 'tmp'));
  const model = await startModelStub();
  try {
    const runners = {
      codex: {
        kind: 'codex',
        command: [CODEX],
        model: 'stub-model',
        baseUrl: `${model.url}/v1`,
        // It distrusts a home below the folder for temporary files.
        env: { HOME: home, CODEX_HOME: home, TMPDIR: join(home, 'tmp'), OPENAI_API_KEY: 'none' },
      },
    };
    const turns = await warmTurns(context, runners, 'say: Hello.', CODEX_TURNS);
    const addedMs = median(turns.map((one) => one.wholeMs)) - (await ownMs(model.url));
    const detail = `${turns.length} turns, one after the other`;
    return [fact('what a warm codex adds to its model, p50', addedMs, 'ms', detail)];
  } finally {
    await model.close();
  }
}

/** How long the model takes by itself. */
async function ownMs(model: string): Promise<number> {
  const times: number[] = [];
  const body = JSON.stringify({ model: 'stub-model', stream: true, input: 'say: Hello.' });
  const headers = { 'content-type': 'application/json', authorization: 'Bearer none' };
  const ask = async () => {
    const answer = await fetch(`${model}/v1/responses`, { method: 'POST', headers, body });
    if (!answer.ok) throw new Error(`The model answered ${answer.status}.`);
    await answer.text();
  };
  for (let i = 0; i < CODEX_TURNS; i++) times.push(await timed(ask));
  return median(times);
}

/** What a window takes in which nothing happens: what a gateway that was started anew has more with them than without. */
async function idleWindows(context: Context): Promise<Finding[]> {
  const windows = sized(context, IDLE_WINDOWS);
  const starts = sized(context, STARTS);
  const options = { dataDir: context.newFolder(), script: HOST };
  const memory = async (): Promise<number> => {
    const bytes: number[] = [];
    const look = async (daemon: Daemon): Promise<void> => {
      await wait(sized(context, SETTLE_MS));
      bytes.push(memoryOf(daemon.pid).pss);
    };
    for (let start = 0; start < starts; start++) await withDaemon(context, look, options);
    return median(bytes);
  };
  await withDaemon(context, async (daemon) => daemon.install(APP, benchApp()), options);
  const without = await memory();
  const open = async (daemon: Daemon): Promise<void> => {
    const ids = Array.from({ length: windows }, (_, i) => `w${i}`);
    await inParallel(ids, 10, async (id) => void (await turn(daemon, id, '1 1')));
  };
  await withDaemon(context, open, options);
  const detail = `${windows} windows; PSS of the supervisor, median of ${starts} starts with and without`;
  return [fact('idle windows', ((await memory()) - without) / MiB, 'MiB', detail)];
}

async function readBesideWindows(context: Context, daemon: Daemon): Promise<(LoadMeasurement | Finding)[]> {
  await installAll(daemon, [APP, OTHER]);
  await daemon.refresh();
  const requests = Array.from({ length: ROWS }, (_, i) => httpBytes(read(i + 1, OTHER).request, daemon.token));
  const quiet = onGateway(QUIET, daemon, context, { requests, intervalMs: READ_EVERY_MS });
  const roundMs = 1000 * sized(context, { full: ROUND_SECONDS, smoke: context.options.seconds });
  const windows = sized(context, WINDOWS);
  const pieces = Math.ceil((PER_SECOND * (roundMs + LONGER_MS)) / 1000);
  let lost = 0;
  const added: number[] = [];
  const streaming = accompanied(WHILE, quiet, async () => {
    const turns: Promise<Turn>[] = [];
    const open = (i: number) =>
      new Promise<void>((begun) => turns.push(turn(daemon, `w${i}`, `${pieces} ${1000 / PER_SECOND}`, begun)));
    await Promise.all(Array.from({ length: windows }, (_, i) => open(i)));
    return async () => {
      for (const { addedMs } of await Promise.all(turns)) {
        lost += pieces - addedMs.length;
        added.push(...addedMs);
      }
    };
  });
  const { measured, late } = await takeTurnsBeside(context, [streaming, quiet], {
    scenario: SCENARIO,
    question: QUESTION,
    durability: null,
    connections: CONNECTIONS,
    roundSeconds: ROUND_SECONDS,
  });
  const detail = `${windows} windows, ${PER_SECOND} pieces a second each`;
  return [
    measured,
    late('p99 of reads while windows stream, of p99 when quiet', WHILE, QUIET, detail),
    fact('pieces lost', lost, '', detail),
    fact('from a runner to its client, p50', median(added), 'ms', detail),
  ];
}

/** From the message on: until `assistant.start` arrived, how old each piece was when it did, until the end. */
type Turn = { startMs: number; addedMs: number[]; wholeMs: number };

/** Of an agent of these `runners`, one after the other, once two have warmed it. */
function warmTurns(context: Context, runners: object, message: string, fullCount: number): Promise<Turn[]> {
  const work = async (daemon: Daemon): Promise<Turn[]> => {
    await daemon.install(APP, benchApp());
    const turns: Turn[] = [];
    while (turns.length < 2 + sized(context, { full: fullCount, smoke: 3 }))
      turns.push(await turn(daemon, 'one', message));
    return turns.slice(2);
  };
  return withDaemon(context, work, { config: { runners: runners as never } });
}

/**
 * Reads what comes and when; looks into it only when all of it is there, so that it does not take the time of what is measured.
 * `begun` is called with the first piece of the turn.
 */
async function turn(daemon: Daemon, windowId: string, message: string, begun = (): void => {}): Promise<Turn> {
  const now = () => performance.timeOrigin + performance.now();
  const from = now();
  const answer = await daemon.request('POST', `/svc/${APP}/_chat`, JSON.stringify({ windowId, message }));
  const chunks: { at: number; bytes: Uint8Array }[] = [];
  for await (const bytes of answer.body as AsyncIterable<Uint8Array>) {
    chunks.push({ at: now(), bytes });
    // The first one is the opening, the second one `assistant.start`.
    if (chunks.length === 3) begun();
  }
  begun();
  const result: Turn = { startMs: 0, addedMs: [], wholeMs: now() - from };
  let ended = false;
  const read = eventReader();
  const events = chunks.flatMap(({ at, bytes }) => read(bytes).map((one) => ({ ...one, at })));
  for (const { event, data, at } of events) {
    if (event === 'assistant.start') result.startMs = at - from;
    if (event === 'error') throw new Error(`A turn failed: ${data}`);
    if (event === 'end') ended = true;
    if (event !== 'assistant.delta') continue;
    const { delta } = JSON.parse(data) as { delta: string };
    for (const sent of delta.trim().split(' ')) result.addedMs.push(at - Number(sent));
  }
  if (!ended) throw new Error(`The stream of a turn in ${windowId} broke off.`);
  return result;
}
