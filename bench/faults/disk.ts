/** Disks that are full, fail, or write less than they are given: callers hear of it, and it heals by itself. */
import { appOf } from '../../testing/apps.ts';
import { Counts } from '../../testing/clients.ts';
import { childrenOf } from '../../testing/processes.ts';
import { whyNoShim } from '../../testing/shim/compile.ts';
import { FAULT, type Fault } from '../../testing/shim/disk.ts';
import { pause } from '../../testing/waiting.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { DiskRound, type Subjects } from './disk-round.ts';
import { signal } from './killer.ts';
import { fillSmallDisk } from './small-disk.ts';
import { leftovers } from './stored.ts';
import { describeStrike, STRIKES, type Strike } from './strikes.ts';
import { LEDGERS, type StruckGateway, struckGateway } from './struck-gateway.ts';
import { strikeStore } from './struck-store.ts';

const ROUNDS = { full: 60, smoke: 13 };
const SYNC_DELAY_US = 1000;
/** Violations after which going on tells nothing more. */
const MANY = 20;
/** Its query logs, so that the log is written to as well. */
const TALKER = appOf('talker', { queries: { say: `({ log }) => { log.info('said'); return 'said'; }` } });

export const disk: Campaign = {
  name: 'disk',
  question: 'Do callers hear of a disk that is full or fails, does reading go on, and does it heal by itself?',
  async run(context) {
    const missing = whyNoShim();
    if (missing !== null) context.report.skipped.push(`faults of the disk: ${missing}`);
    else {
      await strikes(context);
      await strikeStore(context);
    }
    await fillSmallDisk(context);
  },
};

/** One daemon on a disk that is struck again and again, each time healing; at times the power fails as well. */
async function strikes(context: CampaignContext): Promise<void> {
  const { report, progress } = context;
  const struck = struckGateway(context, { syncDelayUs: SYNC_DELAY_US });
  const { gateway, ledger, changes } = struck;
  await struck.start();
  await gateway.install('talker', TALKER);
  const queries = LEDGERS.map((app): [string, string] => [app, 'count']);
  const subjects: Subjects = { gateway, ledger, apps: LEDGERS, queries: [...queries, ['talker', 'say']] };
  const rounds = context.rounds ?? ROUNDS[context.extent];
  for (let round = 1; round <= rounds && report.violations.length <= MANY; round++) {
    const strike = STRIKES[(round - 1) % STRIKES.length] as Strike;
    await strikeOnce(struck, await DiskRound.begin(subjects, round), strike, context, `Round ${round}`);
    progress(`${round} of ${rounds}: ${describeStrike(strike)}`);
  }
  const hits = (Object.keys(FAULT) as Fault[]).map((fault) => `${fault} ${struck.disk.hits(fault)}`);
  report.figure('calls of the disk that failed', hits.join(', '));
  report.figure('other changes, acknowledged', changes.done.list());
  report.figure('other changes, answered otherwise', changes.refused.list());
  report.figure('acknowledged writes, all there', ledger.acknowledged.length);
  await gateway.stop();
  struck.disk.close();
}

async function strikeOnce(
  { gateway, disk, changes, random }: StruckGateway,
  round: DiskRound,
  strike: Strike,
  { report }: CampaignContext,
  name: string,
): Promise<void> {
  const { load } = round;
  const { pid } = gateway;
  const where = `${name} (${describeStrike(strike)})`;
  gateway.log = '';
  await changes.start();
  const before = new Counts(load.outcomes);
  disk.strike(strike.faults, strike.only);
  await pause(random.between(100, 700));
  for (const child of childrenOf(pid)) if (child.role === strike.kills) signal(child.pid, 'SIGKILL');
  await pause(random.between(100, 700));
  for (const [outcome, count] of load.outcomes)
    report.add(`writes while ${strike.name}: ${outcome}`, count - (before.get(outcome) ?? 0));
  const isCut = strike.faults.includes('syncEio') && random.next() < 0.5;
  if (isCut) {
    await round.dismiss();
    await disk.cutPower({ sectors: 0.5 * random.next(), names: 'before a moment' }, random);
    report.add('power cuts in the middle of a strike');
    disk.strike([]);
    await Promise.all([load.stop(), changes.stop()]);
    await gateway.start();
  } else {
    disk.strike([]);
    report.measured('from the end of a strike until 10 more writes', await round.heal());
    await changes.stop();
    if (gateway.pid !== pid || (await gateway.system()).pid === 0) round.violated('The daemon was restarted.');
  }
  // A power cut ends connections, and leaves files that an upload of the app clears away.
  const allowed = isCut ? /./ : new RegExp(`^(${[...strike.allowed, '401'].join('|')})`);
  await round.end(where, report, { allowed, readsFail: strike.readsFail === true });
  report.violated(where, await changes.check());
  if (!isCut) report.violated(where, leftovers(gateway.dataDir));
  report.add('strikes');
}
