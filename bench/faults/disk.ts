/** Disks that are full, fail, or write less than they are given: callers hear of it, and it heals by itself. */
import { appOf } from '../../testing/apps.ts';
import { Counts } from '../../testing/clients.ts';
import { childrenOf } from '../../testing/processes.ts';
import { whyNoShim } from '../../testing/shim/compile.ts';
import { FAULT, type Fault } from '../../testing/shim/disk.ts';
import { pause } from '../../testing/waiting.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { beginRound, type Subjects } from './disk-round.ts';
import { signal } from './killer.ts';
import { Publications } from './publications.ts';
import { fillSmallDisk } from './small-disk.ts';
import { leftovers } from './stored.ts';
import TABLE from './strikes.json' with { type: 'json' };
import { LEDGERS, struckGateway } from './struck-gateway.ts';

const ROUNDS = { full: 60, smoke: 13 };
const STORE_ROUNDS = { full: 60, smoke: 8 };
const SYNC_DELAY_US = 1000;
/** Violations after which going on tells nothing more. */
const MANY = 20;
/** Its query logs, so that the log is written to as well. */
const TALKER = appOf('talker', { queries: { say: `({ log }) => { log.info('said'); return 'said'; }` } });

/** A way in which a disk is struck, and what the callers of writes may hear meanwhile. */
type Strike = {
  name: string;
  faults: Fault[];
  /** The paths that it strikes hold this; all when empty. */
  only: string;
  /** Beginnings of the outcomes that a write may have, a status and a code, besides 401 while the token is replaced. */
  allowed: string[];
  kills?: 'writer' | 'host';
  /** Reading fails too. */
  readsFail?: true;
};

const STRIKES = TABLE.disk as unknown as Strike[];
/** Those of the git store: publications say by themselves what they may be answered. */
const STORE_STRIKES = TABLE.gitStore as Pick<Strike, 'name' | 'faults' | 'only'>[];

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
  const { gateway, disk, random, ledger, changes } = struck;
  await struck.start();
  await gateway.install('talker', TALKER);
  const queries = LEDGERS.map((app): [string, string] => [app, 'count']);
  const subjects: Subjects = { gateway, ledger, apps: LEDGERS, queries: [...queries, ['talker', 'say']] };
  const rounds = context.rounds ?? ROUNDS[context.extent];

  async function strikeOnce(strike: Strike, number: number, where: string): Promise<void> {
    const round = await beginRound(subjects, number);
    const { load } = round;
    const { pid } = gateway;
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

  for (let number = 1; number <= rounds && report.violations.length <= MANY; number++) {
    const strike = STRIKES[(number - 1) % STRIKES.length] as Strike;
    const name = strike.kills === undefined ? strike.name : `${strike.name}, and the ${strike.kills} is killed`;
    await strikeOnce(strike, number, `Round ${number} (${name})`);
    progress(`${number} of ${rounds}: ${name}`);
  }
  const hits = (Object.keys(FAULT) as Fault[]).map((fault) => `${fault} ${disk.hits(fault)}`);
  report.figure('calls of the disk that failed', hits.join(', '));
  report.figure('other changes, acknowledged', changes.done.list());
  report.figure('other changes, answered otherwise', changes.refused.list());
  report.figure('acknowledged writes, all there', ledger.acknowledged.length);
  await gateway.stop();
  disk.close();
}

/** Publications go on while the disk of the git store is struck: what is live never breaks. */
async function strikeStore(context: CampaignContext): Promise<void> {
  const { report, progress } = context;
  const { gateway, disk, random } = struckGateway(context, { store: 'git' });
  const publications = new Publications(gateway, random.fork());
  const rounds = context.rounds ?? STORE_ROUNDS[context.extent];
  await gateway.start();
  await publications.begin();
  for (let round = 0; round < rounds; round++) {
    const strike = STORE_STRIKES[round % STORE_STRIKES.length] as (typeof STORE_STRIKES)[number];
    publications.start();
    await pause(random.between(0, 300));
    disk.strike(strike.faults, strike.only);
    await pause(random.between(300, 1500));
    disk.strike([]);
    await publications.stop();
    const found = [...(await publications.check()), ...leftovers(gateway.dataDir)];
    report.violated(`Git store, round ${round + 1} (${strike.name})`, found);
    report.add('git store: strikes');
    progress(`git store: ${round + 1} of ${rounds}: ${strike.name}`);
    if (found.length > 0) break;
  }
  report.addAll('git store: publications', publications.outcomes);
  report.figure('git store: acknowledged versions', publications.acknowledged);
  await gateway.stop();
  disk.close();
}
