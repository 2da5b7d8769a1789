/** SIGKILL of each process, of two, and of all, at seeded moments under load. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../testing/waiting.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
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
    for (let done = 0; done < rounds; done += ROUNDS_A_FOLDER) {
      if (!(await strikeFolder(context, [done + 1, Math.min(rounds, done + ROUNDS_A_FOLDER)]))) break;
    }
  },
};

/** Rounds on a fresh data directory. False when the gateway did not come back. */
async function strikeFolder(context: CampaignContext, numbers: [number, number]): Promise<boolean> {
  const { random, report, progress } = context;
  const folder = context.newFolder();
  const gateway = context.newGateway({ config: { handlerHosts: 2 } }, folder);
  const killer = new Killer(gateway, context, VICTIMS);
  await gateway.start();
  const crowd = await Crowd.enter(gateway, random.fork(), { writers: 6, retriers: 3, readers: 2 });
  const clients = { uploads: new Uploader(gateway), files: await Keeper.enter(gateway, random.fork()) };
  const isHealthy = await strikeInRounds(context, gateway, {
    numbers,
    choose: () => killer.choose(),
    working: () => crowd.load.more(random.between(5, 40)),
    pauseMs: 30,
    strike: (where, victim) => killer.strike(where, victim),
    healed: (since) => crowd.load.healed(since),
    until: 'every app acknowledges again',
  });
  const where = `rounds ${numbers[0]} to ${numbers[1]}`;
  for (const [name, client] of Object.entries(clients)) {
    await client.stop();
    report.violated(where, client.violations);
    report.addAll(name, client.outcomes);
  }
  await crowd.leave(where, killer, report);
  report.violated(where, await leftovers(folder));
  progress(`${where}: ${report.violations.length} violations so far`);
  await gateway.stop();
  return isHealthy;
}

/** What the daemons that were killed left on the disk, once the last one has had the time to clear it away. */
async function leftovers(folder: string): Promise<string[]> {
  const sockets = () => readdirSync(folder).filter((name) => name.startsWith('svc-'));
  const temporary = () =>
    readdirSync(join(folder, 'data'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.tmp$|^tmp\/./.test(name),
    );
  await eventually(5000, () => sockets().length <= 1 && temporary().length === 0);
  return [
    ...(sockets().length > 1 ? [`${sockets().length} folders of sockets are left, of one daemon.`] : []),
    ...temporary().map((name) => `the temporary file ${name} is left in the data directory.`),
  ];
}
