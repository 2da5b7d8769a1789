/** SIGKILL of each process, of two, and of all, at seeded moments under load. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeGateway } from '../../testing/gateway.ts';
import { eventually } from '../../testing/waiting.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { Crowd } from './crowd.ts';
import { Keeper } from './keeper.ts';
import { Killer } from './killer.ts';
import { strikeInRounds } from './rounds.ts';
import { Uploader } from './uploader.ts';

const ROUNDS = { full: 300, smoke: 30 };
/** Rounds on one data directory, so that what repairs leave behind adds up, before a fresh one. */
const ROUNDS_A_FOLDER = 50;
/** `supervisor twice`: the one that takes over is killed while it starts. */
export const VICTIMS = [
  'writer',
  'host',
  'supervisor',
  'jobs',
  'writer and host',
  'writer and supervisor',
  'host and supervisor',
  'supervisor twice',
  'all',
] as const;

export const kill: Campaign = {
  name: 'kill',
  question:
    'Is every acknowledged write there, once and whole, when processes are killed under load, and how soon does all work again?',
  async run(context) {
    const rounds = context.rounds ?? ROUNDS[context.extent];
    const tally = new Tally();
    for (let done = 0; done < rounds; done += ROUNDS_A_FOLDER) {
      if (!(await strikeFolder(context, tally, [done + 1, Math.min(rounds, done + ROUNDS_A_FOLDER)]))) break;
    }
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};

/** Rounds on a fresh data directory. False when the gateway did not come back. */
async function strikeFolder(context: CampaignContext, tally: Tally, rounds: [number, number]): Promise<boolean> {
  const random = context.random.fork();
  // Where the gateway puts the folder of its sockets.
  const tmp = join(context.newFolder(), 't');
  mkdirSync(tmp);
  const { gateway, remove } = makeGateway({ config: { handlerHosts: 2 }, env: { TMPDIR: tmp } });
  const killer = new Killer(gateway, random, tally, VICTIMS);
  await gateway.start();
  const crowd = await Crowd.enter(gateway, random.fork(), { writers: 6, retriers: 3, readers: 2 });
  const uploader = new Uploader(gateway);
  const keeper = await Keeper.enter(gateway, random.fork());
  const healthy = await strikeInRounds({ context, tally, random, gateway }, rounds, {
    choose: () => killer.choose(),
    working: () => crowd.load.more(random.between(5, 40)),
    pauseMs: 30,
    strike: (where, victim) => killer.strike(where, victim),
    healed: async (at) => {
      await crowd.load.healed(at);
      return [];
    },
    until: 'every app acknowledges again',
  });
  const where = `rounds ${rounds[0]} to ${rounds[1]}`;
  for (const [name, client] of [['uploads', uploader] as const, ['files', keeper] as const]) {
    await client.stop();
    tally.violated(where, client.violations);
    for (const [outcome, count] of client.outcomes) tally.add(`${name}: ${outcome}`, count);
  }
  const { outages, deaths } = killer;
  const verdict = await crowd.leave({ outages, deaths, slow: [] });
  tally.violated(where, verdict.violations);
  tally.addCrowd(crowd, verdict.lost);
  tally.violated(where, await leftovers(gateway.dataDir, tmp));
  context.progress(`${where}: ${tally.violations.length} violations so far`);
  if (healthy) await remove();
  else await gateway.kill();
  return healthy;
}

/** What the daemons that were killed left on the disk, once the last one has had the time to clear it away. */
async function leftovers(dataDir: string, tmp: string): Promise<string[]> {
  const sockets = () => readdirSync(tmp);
  const temporary = () =>
    readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tmp$|^tmp\/./.test(name));
  await eventually(5000, () => sockets().length <= 1 && temporary().length === 0);
  return [
    ...(sockets().length > 1 ? [`${sockets().length} folders of sockets are left, of one daemon.`] : []),
    ...temporary().map((name) => `the temporary file ${name} is left in the data directory.`),
  ];
}
