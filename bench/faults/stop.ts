/** SIGSTOP of each process for a while under load: late replies are thrown away, and nobody's pause is another's death. */
import { compareIdentity } from '../../storage/processes/process-identity.ts';
import { HANG_MS } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { type Child, childrenOf } from '../../testing/processes.ts';
import { eventually, pause, within } from '../../testing/waiting.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { enterCrowd, type Span } from './crowd.ts';
import { signal } from './killer.ts';

const VICTIMS = ['writer', 'host', 'supervisor'] as const;
type Victim = (typeof VICTIMS)[number];
/** Stopped for `ms`; null: until the gateway has replaced it. */
type Stop = { victim: Victim; ms: number | null };

const stopsFor = (ms: number | null, victims: readonly Victim[] = VICTIMS): Stop[] =>
  victims.map((victim) => ({ victim, ms }));
const STOPS = [...stopsFor(1000), ...stopsFor(10_000)];

/** Calls may take far longer than a stop, or far shorter: then they have been answered when the late reply comes. */
const TIMES = { patient: {}, 'timing out': { actionTimeoutMs: 3000, queryTimeoutMs: 2000 } } as const;
type Patience = keyof typeof TIMES;

const FULL: [Patience, Stop[]][] = [
  ['patient', STOPS],
  ['timing out', STOPS],
  ['patient', [...STOPS, ...stopsFor(null, ['writer', 'host'])]],
];
/** All for 1 s, and the first of those for 10 s. */
const SMOKE: [Patience, Stop[]][] = [['timing out', STOPS.slice(0, VICTIMS.length + 1)]];

export const stop: Campaign = {
  name: 'stop',
  question:
    'Does a process that stands still for a while cost an acknowledged write, an answer, a stream, or a healthy process?',
  async run(context) {
    for (const [patience, stops] of context.extent === 'smoke' ? SMOKE : FULL)
      await stopInTurn(context, patience, stops);
  },
};

/** The stops on one gateway. */
async function stopInTurn(context: CampaignContext, patience: Patience, stops: Stop[]): Promise<void> {
  const { random, report, progress } = context;
  const gateway = context.newGateway({ config: { handlerHosts: 1, ...TIMES[patience] } });
  await gateway.start();
  const crowd = await enterCrowd(gateway, random.fork());
  // When calls may have timed out, or died with a process that was replaced.
  const spans: Span[] = [];
  for (const { victim, ms } of stops) {
    const length = ms === null ? 'until replaced' : `for ${ms / 1000} s`;
    const where = `${victim} stopped ${length}, calls ${patience}`;
    progress(where);
    if ((await within(HANG_MS, crowd.load.more(random.between(20, 60)))) === 'late')
      report.violated(where, 'nothing was acknowledged before the stop.');
    await pause(random.between(0, 30));
    const family = childrenOf(gateway.pid);
    const before = await threadsEnded(gateway);
    const stopped = victim === 'supervisor' ? null : (family.find(({ role }) => role === victim) as Child);
    const pid = stopped?.pid ?? gateway.pid;
    const slow: Span = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    // Nobody need notice more of a second than that it passed, unless it is a third of what they have.
    if (ms !== 1000 || patience === 'timing out') spans.push(slow);
    if (!(await standStill(pid, ms, () => stopped !== null && compareIdentity(stopped) !== 'same')))
      report.violated(where, `it was not replaced within ${HANG_MS} ms.`);
    const at = performance.now();
    if ((await within(HANG_MS, crowd.load.healed(at))) === 'late')
      report.violated(where, ['not every app worked again.', gateway.log.slice(-2000)]);
    slow.to = performance.now();
    report.measured(`${victim} stopped ${length}, from its end until every app acknowledges`, slow.to - at);
    // Verdicts on what happened in the pause are given within some seconds.
    if (victim === 'supervisor') await pause(3000);
    const { processes } = (await gateway.system()) as { processes: { role: string; state: string }[] };
    // The jobs process ends by itself after a minute without a job; one that was killed is never in this state.
    const isIdle = (role: string) =>
      role === 'jobs' && processes.some((one) => one.role === role && one.state === 'stopped');
    const ended = family.filter((child) => compareIdentity(child) !== 'same' && !isIdle(child.role));
    const threads = (await threadsEnded(gateway)) - before;
    report.add(`processes replaced, ${victim} stopped ${length}`, ended.length);
    report.violated(
      where,
      ended
        .filter((child) => child !== stopped || (ms !== null && ms <= 1000))
        .map(({ role }) => `a healthy ${role} was ended.`),
    );
    if (victim === 'supervisor' && threads > 0)
      report.violated(where, [`${threads} healthy threads were ended.`, gateway.log.slice(-2000)]);
  }
  await crowd.leave(`calls ${patience}`, { slow: spans }, report);
  await gateway.stop();
}

/** Stops the process for so long, or until it has been replaced. False when it was not in time. */
async function standStill(pid: number, ms: number | null, isReplaced: () => boolean): Promise<boolean> {
  process.kill(pid, 'SIGSTOP');
  const isDone = ms === null ? await eventually(HANG_MS, isReplaced) : await pause(ms, true);
  // Ten seconds are the limit of the heartbeat: it may have been ended at this very moment, or not.
  signal(pid, 'SIGCONT');
  return isDone;
}

/** Threads that ended so far, whatever the reason. */
async function threadsEnded(gateway: TestGateway): Promise<number> {
  const { counters } = await gateway.system();
  return Object.values(counters.retired as Record<string, number>).reduce((sum, count) => sum + count, 0);
}
