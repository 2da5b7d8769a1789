/** SIGKILL of each process, of two, and of all, at seeded moments under load. */
import { readdirSync } from 'node:fs';
import type { Campaign, CampaignContext } from './campaign.ts';
import { enterCrowd } from './crowd.ts';
import { Keeper } from './keeper.ts';
import { killerOf } from './killer.ts';
import { strikeInRounds } from './rounds.ts';
import { leftoversOfTheDead } from './stored.ts';
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
async function strikeFolder(campaign: CampaignContext, numbers: [number, number]): Promise<boolean> {
  // What is drawn here depends on the seed and the folder, not on what became of processes before.
  const context = { ...campaign, random: campaign.random.fork() };
  const { random, report, progress } = context;
  const folder = context.newFolder();
  const gateway = context.newGateway({ config: { handlerHosts: 2 } }, folder);
  const killer = killerOf(gateway, context, VICTIMS);
  await gateway.start();
  const crowd = await enterCrowd(gateway, random.fork());
  const uploader = new Uploader(gateway);
  const keeper = await Keeper.enter(gateway, random.fork());
  const isHealthy = await strikeInRounds(context, gateway, {
    numbers,
    choose: killer.choose,
    working: () => crowd.load.more(random.between(5, 40)),
    pauseMs: 30,
    strike: killer.strike,
    healed: (since) => crowd.load.healed(since),
    until: 'every app acknowledges again',
  });
  const where = `rounds ${numbers[0]} to ${numbers[1]}`;
  await Promise.all([uploader.stop(), keeper.stop()]);
  report.violated(where, [...uploader.violations, ...keeper.violations]);
  report.addAll('uploads', uploader.outcomes);
  report.addAll('files', keeper.outcomes);
  await crowd.leave(where, killer, report);
  report.violated(where, await leftoversOfTheDead(gateway.dataDir));
  const sockets = readdirSync(folder).filter((name) => name.startsWith('svc-'));
  if (sockets.length > 1) report.violated(where, `${sockets.length} folders of sockets are left, of one daemon.`);
  progress(`${where}: ${report.violations.length} violations so far`);
  await gateway.stop();
  return isHealthy;
}
