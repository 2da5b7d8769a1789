/** What a start costs: processor time of each process of a daemon, from `exec` to the first answer, and the time that passes. */
import { setTimeout as wait } from 'node:timers/promises';
import { TestGateway } from '../../testing/gateway.ts';
import { childrenOf, threadsCpuMs } from '../../testing/processes.ts';
import { APP, benchApp } from '../bench-app.ts';
import { type Builds, type Context, type Scenario, sized } from '../context.ts';
import { type Finding, fact, type LoadMeasurement, type SideResult } from '../measurements.ts';
import { ROOT } from '../servers.ts';
import { formatInterval, median, middleFactor, percentile } from '../statistics.ts';

const RUNS = { full: 15, smoke: 2 };
/** By then has run what nobody waits for, such as a spare thread. */
const SETTLED_MS = 1000;

/** Milliseconds. `cpu` is by process, until the first answer; `settledCpu` of all processes, `SETTLED_MS` after it. */
type Start = { readyMs: number; answerMs: number; cpu: Record<string, number>; settledCpu: number };
type Starter = () => Promise<Start>;

const KINDS = {
  'existing data': async (context: Context, root: string): Promise<Starter> => {
    const dataDir = context.newFolder();
    await start(context, root, dataDir, install);
    return () => start(context, root, dataDir);
  },
  'first publication': async (context: Context, root: string): Promise<Starter> => {
    return () => start(context, root, context.newFolder(), install);
  },
};

export const startCostScenario: Scenario = {
  name: 'start',
  question: 'What does a start cost until the first answer, on existing data and with a first publication?',
  run: async (context) => {
    const findings: Finding[] = [];
    for (const [kind, starter] of Object.entries(KINDS)) {
      const next = await starter(context, ROOT);
      const starts: Start[] = [];
      for (let run = 0; run < sized(context, RUNS); run++) starts.push(await next());
      findings.push(...factsOf(kind, starts));
    }
    return findings;
  },
  ab: async (context, builds) => {
    const measured: LoadMeasurement[] = [];
    for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[])
      measured.push(await inTurns(context, kind, builds));
    return measured;
  },
};

/** With the edge that the bench was told, and otherwise as nobody configured it. */
async function start(
  { options }: Context,
  root: string,
  dataDir: string,
  prepare: (daemon: TestGateway) => Promise<unknown> = async () => {},
): Promise<Start> {
  const daemon = new TestGateway(dataDir, ['--edge', options.edge], {}, { root });
  const beganAt = performance.now();
  await daemon.start();
  try {
    await prepare(daemon);
    const { status, text } = await daemon.read(APP, 'get', { id: 1 });
    if (status !== 200) throw new Error(`The first read was answered ${status} ${text}`);
    const answerMs = performance.now() - beganAt;
    const cpu = cpuOf(daemon);
    await wait(SETTLED_MS);
    return { readyMs: daemon.readyMs, answerMs, cpu, settledCpu: sum(cpuOf(daemon)) };
  } finally {
    await daemon.stop();
  }
}

const install = (daemon: TestGateway) => daemon.install(APP, benchApp());

/** Milliseconds of processor time by process. */
export function cpuOf({ pid }: TestGateway): Record<string, number> {
  const cpu: Record<string, number> = { supervisor: threadsCpuMs(pid) };
  for (const child of childrenOf(pid)) cpu[child.role] = (cpu[child.role] ?? 0) + threadsCpuMs(child.pid);
  return cpu;
}

export function sum(cpu: Record<string, number>): number {
  return Object.values(cpu).reduce((total, ms) => total + ms, 0);
}

function factsOf(kind: string, starts: Start[]): Finding[] {
  const of = (what: string, ms: (start: Start) => number, detail: string): Finding =>
    fact(`${kind}: ${what}`, median(starts.map(ms)), 'ms', `${detail}, median of ${starts.length} starts`);
  const roles = new Set(starts.flatMap(({ cpu }) => Object.keys(cpu)));
  return [
    of('ready', ({ readyMs }) => readyMs, 'time since exec'),
    of('first answer', ({ answerMs }) => answerMs, 'time since exec'),
    of('processor time', ({ cpu }) => sum(cpu), 'of all processes, until the first answer'),
    ...[...roles].map((role) => of(`of it ${role}`, ({ cpu }) => cpu[role] ?? 0, 'until the first answer')),
    of('processor time, settled', ({ settledCpu }) => settledCpu, `of all processes, ${SETTLED_MS} ms later`),
  ];
}

/** Starts of two builds in turns; the quotients of processor time are told at once, since the table has those of time. */
async function inTurns(context: Context, kind: keyof typeof KINDS, { A, B }: Builds): Promise<LoadMeasurement> {
  const next = { B: await KINDS[kind](context, B), A: await KINDS[kind](context, A) };
  const starts: Record<'A' | 'B', Start[]> = { B: [], A: [] };
  for (let run = 0; run < sized(context, RUNS); run++)
    for (const side of run % 2 === 0 ? (['A', 'B'] as const) : (['B', 'A'] as const))
      starts[side].push(await next[side]());
  const quotient = (ms: (start: Start) => number) =>
    middleFactor(starts.B.map((one, i) => ms(one) / ms(starts.A[i] as Start)));
  const told = (what: string, ms: (start: Start) => number): void => {
    const [a, b] = [starts.A, starts.B].map((side) => median(side.map(ms)).toFixed(0));
    context.progress(`  ${kind}, ${what}: A ${a} ms, B ${b} ms, B of A ${formatInterval(quotient(ms))}`);
  };
  told('processor time', ({ cpu }) => sum(cpu));
  for (const role of Object.keys(starts.A[0]?.cpu ?? {})) told(`of it ${role}`, ({ cpu }) => cpu[role] ?? 0);
  told('processor time, settled', ({ settledCpu }) => settledCpu);
  told('ready', ({ readyMs }) => readyMs);
  told('first answer', ({ answerMs }) => answerMs);
  return {
    kind: 'load',
    scenario: `start, ${kind}`,
    question: startCostScenario.question,
    durability: null,
    connections: 1,
    sides: { B: sideOf(starts.B), A: sideOf(starts.A) },
    ratios: { A: quotient(({ answerMs }) => 1 / answerMs) },
    rowsPerCommit: null,
  };
}

function sideOf(starts: Start[]): SideResult {
  const times = starts.map(({ answerMs }) => answerMs);
  const roles = Object.keys(starts[0]?.cpu ?? {});
  return {
    rounds: times.map((ms) => ({ requestsPerSecond: 1000 / ms, p50: ms, p99: ms })),
    requestsPerSecond: 1000 / median(times),
    p50: median(times),
    p99: percentile(times, 0.99),
    p999: percentile(times, 0.999),
    worst: Math.max(...times),
    requests: starts.length,
    events: 0,
    failed: 0,
    cpu: Object.fromEntries(roles.map((role) => [role, median(starts.map(({ cpu }) => cpu[role] ?? 0)) * 1000])),
    memory: 0,
    fsyncsPerSecond: null,
    eventLoop: null,
    delivery: null,
  };
}
