/** The power fails under load: what was acknowledged is on the disk, whole. */
import { whyNoShim } from '../../testing/shim/compile.ts';
import type { Survival } from '../../testing/shim/journal.ts';
import { pause } from '../../testing/waiting.ts';
import { Load } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, type CampaignReport, type Figure, spread } from './campaign.ts';
import { Readers } from './readers.ts';
import { leftovers } from './remains.ts';
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
  async run(context) {
    const missing = whyNoShim();
    if (missing !== null) return { figures: [], violations: [], skipped: [`power loss: ${missing}`] };
    const proof = new Outages(context, 'full');
    const control = new Outages(context, 'normal');
    try {
      await proof.run(context.rounds ?? ROUNDS[context.extent]);
      await control.run(CONTROL_ROUNDS);
    } finally {
      await proof.end();
      await control.end();
    }
    return report(proof, control);
  },
};

function report(proof: Outages, control: Outages): CampaignReport {
  const violations = [...proof.violations, ...control.violations];
  if (proof.lost > 0) violations.push(`${proof.lost} acknowledged writes were lost in all.`);
  if (control.lost === 0)
    violations.push(`The shim does not bite: durability "normal" lost nothing in ${control.rounds} power cuts.`);
  const figures: Figure[] = [
    { name: 'power cuts', value: String(proof.rounds) },
    ...proof.figures(),
    { name: 'acknowledged writes lost', value: String(proof.lost) },
    {
      name: 'control: durability "normal"',
      value: `${control.lost} of ${control.acknowledged} acknowledged writes lost in ${control.rounds} power cuts`,
    },
  ];
  return { figures, violations, skipped: [] };
}

/** One data directory through many power cuts, each followed by a start and a comparison with all that was acknowledged. */
class Outages extends StruckGateway {
  readonly violations: string[] = [];
  rounds = 0;
  lost = 0;
  readonly #context: CampaignContext;
  readonly #durability: 'full' | 'normal';
  readonly #startsMs: number[] = [];
  readonly #taken = { writes: 0, names: 0, survivedWrites: 0, survivedNames: 0 };
  #cutWhileStarting = 0;
  #reads = 0;
  #hits = 0;

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
    await this.#start();
    await this.install();
    while (this.rounds < rounds && (this.#durability === 'full' || this.lost === 0)) {
      this.rounds += 1;
      await this.#round();
      if (this.rounds % 10 === 0 || this.violations.length > 0)
        this.#context.progress(
          `${this.rounds} power cuts, ${this.acknowledged} acknowledged writes, ${this.lost} lost`,
        );
      if (this.violations.length > 0) return;
    }
  }

  figures(): Figure[] {
    const { writes, names, survivedWrites, survivedNames } = this.#taken;
    return [
      { name: 'of them while the daemon started', value: String(this.#cutWhileStarting) },
      { name: 'acknowledged writes, all there', value: String(this.acknowledged - this.lost) },
      { name: 'reads; answered with a kept result', value: `${this.#reads}; ${this.#hits}` },
      {
        name: 'other acknowledged changes',
        value: this.changes.done.list(),
      },
      { name: 'unsynced writes dropped; kept in whole or in part', value: `${writes}; ${survivedWrites}` },
      { name: 'unsynced names dropped; kept', value: `${names}; ${survivedNames}` },
      { name: 'start after a power cut', value: spread(this.#startsMs) },
    ];
  }

  async #round(): Promise<void> {
    const load = new Load(this.gateway, { apps: LEDGERS, clients: CLIENTS, prefix: `r${this.rounds}` });
    const readers = new Readers(this.gateway, load, READERS);
    if (this.#durability === 'full') await this.changes.start();
    await this.#moment(load);
    const taken = [await this.#cutPower()];
    await Promise.all([load.stop(), readers.stop(), this.changes.stop()]);
    this.#reads += readers.reads;
    this.#hits += readers.hits;
    this.gateway.log = '';
    if (this.random.next() < 0.15) taken.push(await this.#cutWhileItStarts());
    for (const one of taken) for (const key of KEYS) this.#taken[key] += one[key];
    await this.#start();
    const verdict = this.compare(load);
    this.lost = verdict.lost;
    // Losing what was acknowledged is what "normal" is here to show; half an action or a damaged file it may not leave.
    const found = [...load.violations, ...readers.violations, ...verdict.violations].filter(
      (text) => this.#durability === 'full' || !text.includes('was acknowledged'),
    );
    if (this.#durability === 'full') found.push(...(await this.changes.check()), ...leftovers(this.gateway.dataDir));
    this.violations.push(...found.map((text) => `Round ${this.rounds} (${this.#durability}): ${text}`));
  }

  /** After some writes, or just when a change of another kind was acknowledged. */
  async #moment(load: Load): Promise<void> {
    const writes = load.more(this.random.between(1, 150));
    if (this.#durability === 'full' && this.random.next() < 0.5) await this.changes.next();
    else {
      await writes;
      await pause(this.random.between(0, 30));
    }
  }

  #cutPower() {
    const survival = this.#durability === 'normal' ? (SURVIVALS[0] as Survival) : this.random.pick(SURVIVALS);
    return this.disk.cutPower(survival, this.random);
  }

  /** Repairs are cut off, too. */
  async #cutWhileItStarts() {
    this.#cutWhileStarting += 1;
    const started = this.gateway.start().catch(() => {});
    await pause(this.random.between(50, 400));
    const taken = await this.#cutPower();
    await started;
    await this.gateway.exited();
    return taken;
  }

  async #start(): Promise<void> {
    const startedAt = performance.now();
    await this.gateway.start();
    if (this.rounds > 0) this.#startsMs.push(performance.now() - startedAt);
  }
}

const KEYS = ['writes', 'names', 'survivedWrites', 'survivedNames'] as const;
