/** The power fails under load: what was acknowledged is on the disk, whole. */
import { whyNoShim } from '../../testing/shim/compile.ts';
import type { Survival } from '../../testing/shim/journal.ts';
import { pause } from '../../testing/waiting.ts';
import { Load } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Report } from './campaign.ts';
import { Readers } from './readers.ts';
import { leftovers } from './stored.ts';
import { LEDGERS, StruckGateway } from './struck-gateway.ts';

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
    const proof = new Outages(context, 'full');
    await proof.run(context.rounds ?? ROUNDS[context.extent]);
    if (proof.lost > 0) report.violated('in all', `${proof.lost} acknowledged writes were lost.`);
    const found = new Report();
    const control = new Outages({ ...context, report: found }, 'normal');
    await control.run(CONTROL_ROUNDS);
    report.violations.push(...found.violations);
    if (control.lost === 0)
      report.violated('The shim does not bite', `durability "normal" lost nothing in ${control.rounds} power cuts.`);
    const lost = `${control.lost} of ${control.acknowledged} acknowledged writes lost`;
    report.figure('control: durability "normal"', `${lost} in ${control.rounds} power cuts`);
  },
};

/** One data directory through many power cuts, each followed by a start and a comparison with all that was acknowledged. */
class Outages extends StruckGateway {
  rounds = 0;
  lost = 0;
  readonly #context: CampaignContext;
  readonly #durability: 'full' | 'normal';

  constructor(context: CampaignContext, durability: 'full' | 'normal') {
    super(context, { config: { durability }, syncDelayUs: SYNC_DELAY_US });
    this.#context = context;
    this.#durability = durability;
  }

  get acknowledged(): number {
    return this.ledger.acknowledged.length;
  }

  /** With durability "normal" until something was lost. */
  async run(rounds: number): Promise<void> {
    const { report, progress } = this.#context;
    await this.start();
    while (this.rounds < rounds && report.violations.length === 0 && (this.#durability === 'full' || this.lost === 0)) {
      this.rounds += 1;
      await this.#round(report);
      if (this.rounds % 10 === 0 || report.violations.length > 0)
        progress(`${this.rounds} power cuts, ${this.acknowledged} acknowledged writes, ${this.lost} lost`);
    }
    await this.gateway.stop();
    this.disk.close();
    report.figure('acknowledged writes, all there', this.acknowledged - this.lost);
    report.figure('acknowledged writes lost', this.lost);
    report.figure('other acknowledged changes', this.changes.done.list());
  }

  async #round(report: Report): Promise<void> {
    const { gateway, changes, ledger, random } = this;
    const isFull = this.#durability === 'full';
    const load = new Load(gateway, { apps: LEDGERS, clients: CLIENTS, prefix: `r${this.rounds}` });
    const readers = new Readers(gateway, load, READERS);
    if (isFull) await changes.start();
    await this.#moment(load);
    await this.#cutPower(report);
    report.add('power cuts');
    await Promise.all([load, readers, changes].map((clients) => clients.stop()));
    report.add('reads', readers.reads);
    report.add('of them answered with a kept result', readers.hits);
    gateway.log = '';
    if (random.next() < 0.15) await this.#cutWhileItStarts(report);
    await gateway.start();
    report.measured('start after a power cut', gateway.readyMs);
    ledger.add(load);
    const { violations, lost } = ledger.verify(gateway.dataDir);
    this.lost = lost;
    // Losing what was acknowledged is what "normal" is here to show; half an action or a damaged file it may not leave.
    const found = [...load.violations, ...readers.violations, ...violations].filter(
      (text) => isFull || !text.includes('was acknowledged'),
    );
    if (isFull) found.push(...(await changes.check()), ...leftovers(gateway.dataDir));
    report.violated(`Round ${this.rounds} (${this.#durability})`, found);
  }

  /** After some writes, or just when a change of another kind was acknowledged. */
  async #moment(load: Load): Promise<void> {
    const writes = load.more(this.random.between(1, 150));
    if (this.#durability === 'full' && this.random.next() < 0.5) await this.changes.more();
    else {
      await writes;
      await pause(this.random.between(0, 30));
    }
  }

  async #cutPower(report: Report): Promise<void> {
    const survival = this.#durability === 'normal' ? (SURVIVALS[0] as Survival) : this.random.pick(SURVIVALS);
    const taken = await this.disk.cutPower(survival, this.random);
    report.add('unsynced writes dropped', taken.writes);
    report.add('unsynced writes kept in whole or in part', taken.survivedWrites);
    report.add('unsynced names dropped', taken.names);
    report.add('unsynced names kept', taken.survivedNames);
  }

  /** Repairs are cut off, too. */
  async #cutWhileItStarts(report: Report): Promise<void> {
    report.add('power cuts while the daemon started');
    const started = this.gateway.start().catch(() => {});
    await pause(this.random.between(50, 400));
    await this.#cutPower(report);
    await started;
    await this.gateway.exited();
  }
}
