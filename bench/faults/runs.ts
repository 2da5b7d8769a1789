/** SIGKILL of each process while webhooks and the clock fire automations, and restarts over a time at which they were due. */
import { HANG_MS } from '../../testing/clients.ts';
import { eventually } from '../../testing/waiting.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { overlaps } from './crowd.ts';
import { VICTIMS } from './kill.ts';
import { killerOf } from './killer.ts';
import { stopWell, strikeInRounds } from './rounds.ts';
import { hookApp } from './runs/apps.ts';
import { missFires } from './runs/due.ts';
import { Posters } from './runs/posters.ts';
import { firstFire, runsOf, verifyRuns } from './runs/verify.ts';

const ROUNDS = { full: 100, smoke: 3 };
const DUE_ROUNDS = { full: 10, smoke: 1 };
const APPS = ['ada', 'bob'];
const CLIENTS = 6;
/** After a restart the clock fires within this; what fires each second was due at least once by then. */
const CRON_MS = 2000;
/** `503`: no room for the run while threads come back. */
const EXPECTED = /^(200|202|409 CONFLICT|429 RATE_LIMITED|500 HANDLER_ERROR|503 OVERLOADED|no answer)$/;

export const runs: Campaign = {
  name: 'runs',
  question:
    'Is every run that was answered stored as it ended, with what it wrote, when processes are killed, and does the clock miss or repeat a fire?',
  async run(context) {
    await Promise.all([
      strike({ ...context, random: context.random.fork() }, context.rounds ?? ROUNDS[context.extent]),
      missFires({ ...context, random: context.random.fork() }, DUE_ROUNDS[context.extent]),
    ]);
  },
};

async function strike(context: CampaignContext, rounds: number): Promise<void> {
  const { random, report } = context;
  const gateway = context.newGateway({ config: { handlerHosts: 2 } });
  const killer = killerOf(gateway, context, VICTIMS);
  await gateway.start();
  const installed = await Promise.all(APPS.map((app) => gateway.install(app, hookApp(app))));
  const webhooks = installed.flatMap((one) => one.webhooks);
  const posters = new Posters(gateway, webhooks, CLIENTS, random.fork());

  /** Nothing of the dead daemon is still under way, and the clock fires again. Milliseconds since the epoch. */
  async function afterRestart(where: string, struckAt: number): Promise<void> {
    const readyAt = Date.now();
    const open = runsOf(gateway.dataDir).filter(({ endedAt, queuedAt }) => endedAt === null && queuedAt < struckAt);
    report.violated(
      where,
      open.map(({ runId }) => `the run ${runId} of the dead daemon is still under way.`),
    );
    for (const app of APPS) {
      const fired = () => firstFire(gateway.dataDir, app, 'tick', readyAt);
      await eventually(HANG_MS, () => fired() !== null);
      const late = (fired() ?? Number.POSITIVE_INFINITY) - readyAt;
      report.measured('from ready until the clock fires', late);
      if (late > CRON_MS) report.violated(where, `${app}/tick fired ${late} ms after the restart.`);
    }
  }

  await strikeInRounds(context, gateway, {
    numbers: [1, rounds],
    choose: killer.choose,
    working: () => posters.more(random.between(4, 16)),
    pauseMs: 200,
    strike: async (where, victim) => {
      const [struckAt, outages] = [Date.now(), killer.outages.length];
      await killer.strike(where, victim);
      if (killer.outages.length > outages) await afterRestart(where, struckAt);
    },
    healed: () => posters.open(),
    until: 'every webhook answers 200 again',
  });
  await posters.stop();
  await stopWell(gateway, report);
  report.violated('afterwards', [...posters.violations, ...verifyRuns(gateway.dataDir, APPS, posters, report)]);
  for (const { key, outcome, sentAt, answeredAt } of posters.posts) {
    report.add(`posts: ${outcome}`);
    if (!EXPECTED.test(outcome)) report.violated('afterwards', `${key} was answered ${outcome}.`);
    if (outcome === 'no answer' && !overlaps(killer.outages, sentAt, answeredAt))
      report.violated('afterwards', `${key} got no answer though the supervisor lived.`);
  }
  for (const { outcome } of posters.messages) report.add(`signed messages, repeated until they are: ${outcome}`);
}
