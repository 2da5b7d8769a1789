/** SIGKILL of each process while webhooks and the clock fire automations, and restarts over a time at which they were due. */
import { makeGateway } from '../../testing/gateway.ts';
import { eventually } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { overlaps, type Span } from './crowd.ts';
import { VICTIMS } from './kill.ts';
import { Killer } from './killer.ts';
import { strikeInRounds } from './rounds.ts';
import { installHooks } from './runs/apps.ts';
import { missFires } from './runs/due.ts';
import { Posters } from './runs/posters.ts';
import { firstFire, openRuns, verifyRuns } from './runs/verify.ts';

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
    const tally = new Tally();
    await Promise.all([
      strike(context, tally, context.rounds ?? ROUNDS[context.extent]),
      missFires(context, tally, DUE_ROUNDS[context.extent]),
    ]);
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};

async function strike(context: CampaignContext, tally: Tally, rounds: number): Promise<void> {
  const random = context.random.fork();
  const { gateway, remove } = makeGateway({ config: { handlerHosts: 2 } });
  const killer = new Killer(gateway, random, tally, VICTIMS);
  await gateway.start();
  const webhooks = (await Promise.all(APPS.map((app) => installHooks(gateway, app)))).flat();
  const posters = new Posters(gateway, webhooks, CLIENTS, random.fork());
  await strikeInRounds({ context, tally, random, gateway }, [1, rounds], {
    choose: () => killer.choose(),
    working: () => posters.more(random.between(4, 16)),
    pauseMs: 200,
    strike: async (where, victim) => {
      const [struckAt, outages] = [Date.now(), killer.outages.length];
      await killer.strike(where, victim);
      if (killer.outages.length > outages) await afterRestart(gateway.dataDir, tally, where, struckAt);
    },
    healed: () => posters.open(),
    until: 'every webhook answers 200 again',
  });
  await posters.stop();
  const code = await gateway.stop();
  if (code !== 0) tally.violated('the stop', [`it ended with code ${code}: ${gateway.log.slice(-500)}`]);
  judge(gateway.dataDir, tally, killer.outages, posters);
  if (tally.violations.length === 0) await remove();
}

/** Nothing of the dead daemon is still under way, and the clock fires again. Milliseconds since the epoch. */
async function afterRestart(dataDir: string, tally: Tally, where: string, struckAt: number): Promise<void> {
  const readyAt = Date.now();
  const open = openRuns(dataDir, struckAt);
  tally.violated(
    where,
    open.map((runId) => `the run ${runId} of the dead daemon is still under way.`),
  );
  for (const app of APPS) {
    const fired = () => firstFire(dataDir, app, 'tick', readyAt);
    await eventually(HANG_MS, () => fired() !== null);
    const late = (fired() ?? Number.POSITIVE_INFINITY) - readyAt;
    tally.measured('from ready until the clock fires', late);
    if (late > CRON_MS) tally.violated(where, [`${app}/tick fired ${late} ms after the restart.`]);
  }
}

function judge(dataDir: string, tally: Tally, outages: Span[], posters: Posters): void {
  const { violations, states } = verifyRuns(dataDir, APPS, posters);
  tally.violated('afterwards', [...posters.violations, ...violations]);
  for (const { key, outcome, sentAt, answeredAt } of posters.posts) {
    tally.add(`posts: ${outcome}`, 1);
    if (!EXPECTED.test(outcome)) tally.violated('afterwards', [`${key} was answered ${outcome}.`]);
    if (outcome === 'no answer' && !overlaps(outages, sentAt, answeredAt))
      tally.violated('afterwards', [`${key} got no answer though the supervisor lived.`]);
  }
  for (const { outcome } of posters.messages) tally.add(`signed messages, repeated until they are: ${outcome}`, 1);
  for (const [state, count] of states) tally.add(state, count);
}
