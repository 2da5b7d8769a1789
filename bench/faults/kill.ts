/** SIGKILL of each process, of two, and of all, at seeded moments under load. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause, within } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { Crowd, eventually } from './crowd.ts';
import { Keeper } from './keeper.ts';
import { Killer } from './killer.ts';
import { Uploader } from './uploader.ts';

const ROUNDS = { full: 300, smoke: 30 };
/** Rounds on one data directory, so that what repairs leave behind adds up, before a fresh one. */
const ROUNDS_A_FOLDER = 50;

export const kill: Campaign = {
  name: 'kill',
  question:
    'Is every acknowledged write there, once and whole, when processes are killed under load, and how soon does all work again?',
  async run(context) {
    if (process.platform !== 'linux')
      return { figures: [], violations: [], skipped: ['Processes are found through /proc, which is Linux only.'] };
    const rounds = context.rounds ?? ROUNDS[context.extent];
    const tally = new Tally();
    for (let done = 0; done < rounds; done += ROUNDS_A_FOLDER) {
      const stretch = new KillStretch(context, tally, done + 1, Math.min(rounds, done + ROUNDS_A_FOLDER));
      if (!(await stretch.run())) break;
    }
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};

export class KillStretch {
  readonly #context: CampaignContext;
  readonly #tally: Tally;
  readonly #first: number;
  readonly #last: number;
  readonly #random: Random;
  readonly #gateway: TestGateway;
  readonly #remove: () => Promise<void>;
  /** Where the gateway puts the folder of its sockets. */
  readonly #tmp: string;
  readonly #killer: Killer;

  /** Rounds number `first` to `last`. */
  constructor(context: CampaignContext, tally: Tally, first: number, last: number) {
    this.#context = context;
    this.#tally = tally;
    this.#first = first;
    this.#last = last;
    this.#random = context.random.fork();
    this.#tmp = join(context.newFolder(), 't');
    mkdirSync(this.#tmp);
    const { gateway, remove } = makeGateway({ config: { handlerHosts: 2 }, env: { TMPDIR: this.#tmp } });
    this.#gateway = gateway;
    this.#remove = remove;
    this.#killer = new Killer(gateway, this.#random, tally);
  }

  /** False when the gateway did not come back, so that there is no use in going on. */
  async run(): Promise<boolean> {
    await this.#gateway.start();
    const crowd = await Crowd.enter(this.#gateway, this.#random.fork(), { writers: 6, retriers: 3, readers: 2 });
    const uploader = new Uploader(this.#gateway);
    const keeper = await Keeper.enter(this.#gateway, this.#random.fork());
    let healthy = true;
    for (let round = this.#first; healthy && round <= this.#last; round++) {
      healthy = await this.#round(`round ${round}`, crowd);
      if (round % 10 === 0) this.#context.progress(`round ${round} of ${this.#last}`);
    }
    const where = `rounds ${this.#first} to ${this.#last}`;
    for (const [name, client] of [['uploads', uploader] as const, ['files', keeper] as const]) {
      await client.stop();
      this.#tally.violated(where, client.violations);
      for (const [outcome, count] of client.outcomes) this.#tally.add(`${name}: ${outcome}`, count);
    }
    const { outages, deaths } = this.#killer;
    const verdict = await crowd.leave({ outages, deaths, slow: [] });
    this.#tally.violated(where, verdict.violations);
    this.#tally.addCrowd(crowd, verdict.lost);
    this.#tally.violated(where, await this.#leftovers());
    this.#context.progress(`${where}: ${this.#tally.violations.length} violations so far`);
    if (healthy) await this.#remove();
    else await this.#gateway.kill();
    return healthy;
  }

  async #round(name: string, crowd: Crowd): Promise<boolean> {
    const victim = this.#killer.choose();
    const where = `${name} (${victim})`;
    const stuck = await within(HANG_MS, crowd.load.more(this.#random.between(5, 40)));
    if (stuck === 'late') return this.#giveUp(where, 'nothing was acknowledged before the kill.');
    await pause(this.#random.between(0, 30));
    const at = performance.now();
    try {
      await this.#killer.strike(where, victim);
    } catch (error) {
      return this.#giveUp(where, (error as Error).message);
    }
    if ((await within(HANG_MS, crowd.load.healed(at))) === 'late')
      return this.#giveUp(where, 'not every app works again.');
    this.#tally.measured(`${victim} killed, until every app acknowledges again`, performance.now() - at);
    this.#tally.add('rounds', 1);
    return true;
  }

  #giveUp(where: string, what: string): false {
    this.#tally.violated(where, [what, `the daemon's last words: ${this.#gateway.log.slice(-2000)}`]);
    return false;
  }

  /** What the daemons that were killed left on the disk, once the last one has had the time to clear it away. */
  async #leftovers(): Promise<string[]> {
    const sockets = () => readdirSync(this.#tmp);
    const temporary = () =>
      readdirSync(this.#gateway.dataDir, { recursive: true, encoding: 'utf8' }).filter((name) =>
        /\.tmp$|^tmp\/./.test(name),
      );
    await eventually(5000, () => sockets().length <= 1 && temporary().length === 0);
    return [
      ...(sockets().length > 1 ? [`${sockets().length} folders of sockets are left, of one daemon.`] : []),
      ...temporary().map((name) => `the temporary file ${name} is left in the data directory.`),
    ];
  }
}
