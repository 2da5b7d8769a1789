/** SIGKILL of each process while webhooks and the clock fire automations, and restarts over a time at which they were due. */
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause, within } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { eventually } from './crowd.ts';
import { Killer } from './killer.ts';
import { installHooks } from './runs/apps.ts';
import { DueRounds } from './runs/due.ts';
import { Posters } from './runs/posters.ts';
import { firstFire, openRuns, verifyRuns } from './runs/verify.ts';

const ROUNDS = { full: 100, smoke: 3 };
const DUE_ROUNDS = { full: 10, smoke: 1 };

export const runs: Campaign = {
  name: 'runs',
  question:
    'Is every run that was answered stored as it ended, with what it wrote, when processes are killed, and does the clock miss or repeat a fire?',
  async run(context) {
    if (process.platform !== 'linux')
      return { figures: [], violations: [], skipped: ['Processes are found through /proc, which is Linux only.'] };
    const tally = new Tally();
    await Promise.all([
      new RunsStretch(context, tally, context.rounds ?? ROUNDS[context.extent]).run(),
      new DueRounds(context, tally).run(DUE_ROUNDS[context.extent]),
    ]);
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};

const APPS = ['ada', 'bob'];
const CLIENTS = 6;
/** After a restart the clock fires within this; what fires each second was due at least once by then. */
const CRON_MS = 2000;
/** `503`: no room for the run while threads come back. */
const EXPECTED = /^(200|202|409 CONFLICT|429 RATE_LIMITED|500 HANDLER_ERROR|503 OVERLOADED|no answer)$/;

export class RunsStretch {
  readonly #context: CampaignContext;
  readonly #tally: Tally;
  readonly #rounds: number;
  readonly #random: Random;
  readonly #gateway: TestGateway;
  readonly #remove: () => Promise<void>;
  readonly #killer: Killer;

  constructor(context: CampaignContext, tally: Tally, rounds: number) {
    this.#context = context;
    this.#tally = tally;
    this.#rounds = rounds;
    this.#random = context.random.fork();
    const { gateway, remove } = makeGateway({ config: { handlerHosts: 2 } });
    this.#gateway = gateway;
    this.#remove = remove;
    this.#killer = new Killer(gateway, this.#random, tally);
  }

  async run(): Promise<void> {
    const gateway = this.#gateway;
    await gateway.start();
    const webhooks = (await Promise.all(APPS.map((app) => installHooks(gateway, app)))).flat();
    const posters = new Posters(gateway, webhooks, CLIENTS, this.#random.fork());
    let healthy = true;
    for (let round = 1; healthy && round <= this.#rounds; round++) {
      healthy = await this.#round(round, posters);
      if (round % 10 === 0) this.#context.progress(`round ${round} of ${this.#rounds}`);
    }
    await posters.stop();
    const code = await gateway.stop();
    if (code !== 0) this.#tally.violated('the stop', [`it ended with code ${code}: ${gateway.log.slice(-500)}`]);
    this.#judge(posters);
    if (this.#tally.violations.length === 0) await this.#remove();
  }

  async #round(round: number, posters: Posters): Promise<boolean> {
    const victim = this.#killer.choose();
    const where = `round ${round} (${victim})`;
    const warm = posters.more(this.#random.between(4, 16));
    if ((await within(HANG_MS, warm)) === 'late') return this.#giveUp(where, 'no post is answered with success.');
    await pause(this.#random.between(0, 200));
    const [struckAt, outages, at] = [Date.now(), this.#killer.outages.length, performance.now()];
    try {
      await this.#killer.strike(where, victim);
    } catch (error) {
      return this.#giveUp(where, (error as Error).message);
    }
    if (this.#killer.outages.length > outages) await this.#afterRestart(where, struckAt, Date.now());
    const closed = await posters.open();
    if (closed.length > 0) return this.#giveUp(where, closed.join(' '));
    this.#tally.measured(`${victim} killed, until every webhook answers 200 again`, performance.now() - at);
    this.#tally.add('rounds', 1);
    return true;
  }

  /** Nothing of the dead daemon is still under way, and the clock fires again. Milliseconds since the epoch. */
  async #afterRestart(where: string, struckAt: number, readyAt: number): Promise<void> {
    const { dataDir } = this.#gateway;
    const open = openRuns(dataDir, struckAt);
    this.#tally.violated(
      where,
      open.map((runId) => `the run ${runId} of the dead daemon is still under way.`),
    );
    for (const app of APPS) {
      const fired = () => firstFire(dataDir, app, 'tick', readyAt);
      await eventually(HANG_MS, () => fired() !== null);
      const late = (fired() ?? Number.POSITIVE_INFINITY) - readyAt;
      this.#tally.measured('from ready until the clock fires', late);
      if (late > CRON_MS) this.#tally.violated(where, [`${app}/tick fired ${late} ms after the restart.`]);
    }
  }

  #giveUp(where: string, what: string): false {
    this.#tally.violated(where, [what, `the daemon's last words: ${this.#gateway.log.slice(-2000)}`]);
    return false;
  }

  #judge(posters: Posters): void {
    const { posts, messages } = posters;
    const { violations, states } = verifyRuns(this.#gateway.dataDir, APPS, posters);
    this.#tally.violated('afterwards', [...posters.violations, ...violations]);
    for (const { key, outcome, sentAt, answeredAt } of posts) {
      this.#tally.add(`posts: ${outcome}`, 1);
      if (!EXPECTED.test(outcome)) this.#tally.violated('afterwards', [`${key} was answered ${outcome}.`]);
      const lived = !this.#killer.outages.some(({ from, to }) => from <= answeredAt && to >= sentAt);
      if (outcome === 'no answer' && lived)
        this.#tally.violated('afterwards', [`${key} got no answer though the supervisor lived.`]);
    }
    for (const { outcome } of messages) this.#tally.add(`signed messages, repeated until they are: ${outcome}`, 1);
    for (const [state, count] of states) this.#tally.add(state, count);
  }
}
