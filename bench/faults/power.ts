/** The power fails under load: what was acknowledged is on the disk, whole. */
import { whyNoShim } from '../../testing/shim/compile.ts';
import type { Survival } from '../../testing/shim/journal.ts';
import { pause } from '../../testing/waiting.ts';
import { Load } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Report } from './campaign.ts';
import { Readers } from './readers.ts';
import { leftovers } from './stored.ts';
import { LEDGERS, struckGateway } from './struck-gateway.ts';

const ROUNDS = { full: 100, smoke: 6 };
/** Rounds within which `durability: normal` must have lost something. */
const CONTROL_ROUNDS = 5;
const CLIENTS = 8;
const READERS = 2;
/** An fsync of the simulated disk takes up to this long. */
const SYNC_DELAY_US = 4000;

/** A disk that keeps nothing it need not keep, and some that keep more, in their own order. */
const SURVIVALS: Survival[] = [
  { sectors: 0, names: 0 },
  { sectors: 0, names: 'before a moment' },
  { sectors: 0.5, names: 'before a moment' },
  { sectors: 0.5, names: 0.5 },
  { sectors: 0.9, names: 1 },
  { sectors: 0, names: 1 },
];

export const power: Campaign = {
  name: 'power',
  question: 'Is everything that was acknowledged on the disk when the power fails?',
  whyNot: whyNoShim,
  async run(context) {
    const { report } = context;
    const proof = await cutAgainAndAgain(context, 'full', context.rounds ?? ROUNDS[context.extent]);
    if (proof.lost > 0) report.violated('in all', `${proof.lost} acknowledged writes were lost.`);
    const found = new Report();
    const control = await cutAgainAndAgain({ ...context, report: found }, 'normal', CONTROL_ROUNDS);
    report.violations.push(...found.violations);
    if (control.lost === 0)
      report.violated('The shim does not bite', `durability "normal" lost nothing in ${control.rounds} power cuts.`);
    const lost = `${control.lost} of ${control.acknowledged} acknowledged writes lost`;
    report.figure('control: durability "normal"', `${lost} in ${control.rounds} power cuts`);
  },
};

/**
 * One data directory through `most` power cuts, each followed by a start and a comparison with all that was acknowledged. With
 * durability "normal" until something was lost.
 */
async function cutAgainAndAgain(context: CampaignContext, durability: 'full' | 'normal', most: number) {
  const { report, progress } = context;
  const struck = struckGateway(context, { config: { durability }, syncDelayUs: SYNC_DELAY_US });
  const { gateway, disk, random, changes, ledger } = struck;
  const isFull = durability === 'full';
  let rounds = 0;
  let lost = 0;

  async function round(): Promise<void> {
    const load = new Load(gateway, { apps: LEDGERS, clients: CLIENTS, prefix: `r${rounds}` });
    const readers = new Readers(gateway, load, READERS);
    if (isFull) await changes.start();
    await moment(load);
    await cutPower();
    report.add('power cuts');
    await Promise.all([load, readers, changes].map((clients) => clients.stop()));
    report.add('reads', readers.reads);
    report.add('of them answered with a kept result', readers.hits);
    gateway.log = '';
    if (random.next() < 0.15) await cutWhileItStarts();
    await gateway.start();
    report.measured('start after a power cut', gateway.readyMs);
    ledger.add(load);
    const verdict = ledger.verify(gateway.dataDir);
    lost = verdict.lost;
    // Losing what was acknowledged is what "normal" is here to show; half an action or a damaged file it may not leave.
    const found = [...load.violations, ...readers.violations, ...verdict.violations].filter(
      (text) => isFull || !text.includes('was acknowledged'),
    );
    if (isFull) found.push(...(await changes.check()), ...leftovers(gateway.dataDir));
    report.violated(`Round ${rounds} (${durability})`, found);
  }

  /** After some writes, or just when a change of another kind was acknowledged. */
  async function moment(load: Load): Promise<void> {
    const writes = load.more(random.between(1, 150));
    if (isFull && random.next() < 0.5) await changes.more();
    else {
      await writes;
      await pause(random.between(0, 30));
    }
  }

  async function cutPower(): Promise<void> {
    const survival = isFull ? random.pick(SURVIVALS) : (SURVIVALS[0] as Survival);
    const taken = await disk.cutPower(survival, random);
    report.add('unsynced writes dropped', taken.writes);
    report.add('unsynced writes kept in whole or in part', taken.survivedWrites);
    report.add('unsynced names dropped', taken.names);
    report.add('unsynced names kept', taken.survivedNames);
  }

  /** Repairs are cut off, too. */
  async function cutWhileItStarts(): Promise<void> {
    report.add('power cuts while the daemon started');
    const started = gateway.start().catch(() => {});
    await pause(random.between(50, 400));
    await cutPower();
    await started;
    await gateway.exited();
  }

  await struck.start();
  while (rounds < most && report.violations.length === 0 && (isFull || lost === 0)) {
    rounds += 1;
    await round();
    if (rounds % 10 === 0 || report.violations.length > 0)
      progress(`${rounds} power cuts, ${ledger.acknowledged.length} acknowledged writes, ${lost} lost`);
  }
  await gateway.stop();
  disk.close();
  const acknowledged = ledger.acknowledged.length;
  report.figure('acknowledged writes, all there', acknowledged - lost);
  report.figure('acknowledged writes lost', lost);
  report.figure('other acknowledged changes', changes.done.list());
  return { rounds, lost, acknowledged };
}
