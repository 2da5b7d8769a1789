/** Disks that are full, fail, or write less than they are given: callers hear of it, and it heals by itself. */
import { appOf } from '../../testing/apps.ts';
import { Counts } from '../../testing/clients.ts';
import { childrenOf } from '../../testing/processes.ts';
import { whyNoShim } from '../../testing/shim/compile.ts';
import { pause, within } from '../../testing/waiting.ts';
import { Load } from '../../testing/write-ledger.ts';
import { Bystanders } from './bystanders.ts';
import { type Campaign, type CampaignContext, type CampaignReport, type Figure, spread } from './campaign.ts';
import { signal } from './killer.ts';
import { Readers } from './readers.ts';
import { leftovers } from './remains.ts';
import { fillSmallDisk } from './small-disk.ts';
import { describeStrike, STRIKES, type Strike } from './strikes.ts';
import { LEDGERS, StruckGateway } from './struck-gateway.ts';
import { strikeStore } from './struck-store.ts';

const ROUNDS = { full: 60, smoke: 13 };
const CLIENTS = 6;
const READERS = 2;
const SYNC_DELAY_US = 1000;
/** Violations after which going on tells nothing more. */
const MANY = 20;
/** Within this after the disk is well again, everything must be as before. */
const HEAL_MS = 20_000;

/** Its query logs, so that the log is written to as well. */
const TALKER = appOf('talker', { queries: { say: `({ log }) => { log.info('said'); return 'said'; }` } });

export const disk: Campaign = {
  name: 'disk',
  question: 'Do callers hear of a disk that is full or fails, does reading go on, and does it heal by itself?',
  async run(context) {
    const report: CampaignReport = { figures: [], violations: [], skipped: [] };
    const missing = whyNoShim();
    if (missing !== null) report.skipped.push(`faults of the disk: ${missing}`);
    else {
      await strikes(context, report);
      await strikeStore(context, report);
    }
    await fillSmallDisk(context, report);
    return report;
  },
};

async function strikes(context: CampaignContext, report: CampaignReport): Promise<void> {
  const struck = new StruckDisk(context);
  try {
    await struck.run(context.rounds ?? ROUNDS[context.extent]);
    report.violations.push(...struck.violations);
    report.figures.push(...struck.figures());
  } finally {
    await struck.end();
  }
}

/** One daemon on a disk that is struck again and again, each time healing; at the end the power fails as well. */
class StruckDisk extends StruckGateway {
  readonly violations: string[] = [];
  readonly #progress: CampaignContext['progress'];
  readonly #outcomes = new Map<string, Counts>();
  readonly #healMs: number[] = [];
  #rounds = 0;
  #reads = 0;
  #kept = 0;
  #powerCuts = 0;

  constructor(context: CampaignContext) {
    super(context, { syncDelayUs: SYNC_DELAY_US });
    this.#progress = context.progress;
  }

  async run(rounds: number): Promise<void> {
    await this.gateway.start();
    await this.install({ talker: TALKER });
    while (this.#rounds < rounds) {
      const strike = STRIKES[this.#rounds % STRIKES.length] as Strike;
      this.#rounds += 1;
      const found = await this.#round(strike);
      this.violations.push(...found.map((text) => `Round ${this.#rounds} (${describeStrike(strike)}): ${text}`));
      this.#progress(`${this.#rounds} of ${rounds}: ${describeStrike(strike)}`);
      if (this.violations.length > MANY) return;
    }
  }

  figures(): Figure[] {
    const hits = (['full', 'writeEio', 'syncEio', 'short', 'readEio'] as const).map(
      (fault) => `${fault} ${this.disk.hits(fault)}`,
    );
    return [
      { name: 'strikes', value: String(this.#rounds) },
      { name: 'calls of the disk that failed', value: hits.join(', ') },
      ...[...this.#outcomes].map(([name, counts]) => ({ name: `writes while ${name}`, value: counts.list() })),
      { name: 'other changes, acknowledged', value: this.changes.done.list() },
      { name: 'other changes, answered otherwise', value: this.changes.refused.list() },
      { name: 'reads meanwhile, all answered 200', value: String(this.#reads) },
      { name: 'further reads that were answered with a kept result', value: String(this.#kept) },
      { name: 'from the end of a strike until 10 more writes', value: spread(this.#healMs) },
      { name: 'power cuts in the middle of a strike', value: String(this.#powerCuts) },
      { name: 'acknowledged writes, all there', value: String(this.ledger.acknowledged.length) },
    ];
  }

  async #round(strike: Strike): Promise<string[]> {
    const gateway = this.gateway;
    const violations: string[] = [];
    gateway.log = '';
    const { pid } = gateway;
    const load = new Load(gateway, { apps: LEDGERS, clients: CLIENTS, prefix: `s${this.#rounds}` });
    const readers = new Readers(gateway, load, READERS);
    const bystanders = new Bystanders(gateway, [
      ...LEDGERS.map((app): [string, string] => [app, 'count']),
      ['talker', 'say'],
    ]);
    await load.more(5);
    await bystanders.start(LEDGERS[0] as string);
    await this.changes.start();
    const before = new Map(load.outcomes);
    this.disk.strike(strike.faults, strike.only);
    await pause(this.random.between(100, 700));
    for (const child of childrenOf(gateway.pid)) if (child.role === strike.kills) signal(child.pid, 'SIGKILL');
    await pause(this.random.between(100, 700));
    this.#count(strike, before, load.outcomes);
    const cutPower = strike.faults.includes('syncEio') && this.random.next() < 0.5;
    if (cutPower) {
      await bystanders.stop();
      await this.disk.cutPower({ sectors: 0.5 * this.random.next(), names: 'before a moment' }, this.random);
      this.#powerCuts += 1;
      this.disk.strike([]);
      await Promise.all([load.stop(), readers.stop(), this.changes.stop()]);
      await gateway.start();
    } else {
      this.disk.strike([]);
      const healedFrom = performance.now();
      if ((await within(HEAL_MS, load.more(10))) === 'late')
        violations.push(
          `No write was acknowledged for ${HEAL_MS} ms after the disk was well again: ${load.outcomes.list()}.`,
        );
      this.#healMs.push(performance.now() - healedFrom);
      if (!(await bystanders.change(HEAL_MS))) violations.push('The stream of changes says nothing any more.');
      await Promise.all([load.stop(), readers.stop(), this.changes.stop()]);
      await bystanders.stop();
      if (gateway.pid !== pid || (await gateway.system()).pid === 0) violations.push('The daemon was restarted.');
    }
    this.#reads += bystanders.reads;
    this.#kept += readers.hits;
    violations.push(...load.violations, ...readers.violations);
    if (strike.readsFail !== true) violations.push(...bystanders.violations);
    for (const outcome of load.outcomes.keys())
      if (!cutPower && ![...strike.allowed, '401'].some((one) => outcome.startsWith(one)))
        violations.push(`A write was answered ${outcome}.`);
    violations.push(...this.compare(load).violations, ...(await this.changes.check()));
    if (!cutPower) violations.push(...leftovers(gateway.dataDir));
    return violations;
  }

  #count({ name }: Strike, before: Map<string, number>, after: Map<string, number>): void {
    const counts = this.#outcomes.get(name) ?? new Counts();
    this.#outcomes.set(name, counts);
    for (const [outcome, count] of after) {
      const more = count - (before.get(outcome) ?? 0);
      if (more > 0) counts.count(outcome, more);
    }
  }
}
