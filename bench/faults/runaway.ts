/** The campaign of apps that misbehave in every way we know: only they notice, the cause is named, and a mended version helps. */
import { LIMITS } from '../../protocol/limits.ts';
import { appOf } from '../../testing/apps.ts';
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause } from '../../testing/waiting.ts';
import { Ledger, type Load, ledgerApp } from '../../testing/write-ledger.ts';
import { rssOf } from '../process-usage.ts';
import type { Campaign, CampaignContext, CampaignReport, Figure } from './campaign.ts';
import { AUTOMATION_MS, runAutomationTrials } from './runaway/automations.ts';
import { startEndpoint } from './runaway/endpoint.ts';
import { KINDS, type Kind, type Reach, TIMEOUT_MS } from './runaway/kinds.ts';
import { Neighbours, type Noticed } from './runaway/neighbours.ts';
import { ended, type Listed, lasting, processesOf } from './runaway/processes.ts';
import { runStorm } from './runaway/storm.ts';
import { ANSWER_GRACE_MS, install, runTrial, type Trial, untilQuarantined } from './runaway/trial.ts';

const GOOD = ['good-1', 'good-2', 'good-3'];
const ROUNDS = { full: 3, smoke: 1 };
const ALONE_MS = { full: 10_000, smoke: 3_000 };
const STORM_SECONDS = { full: 30, smoke: 6 };
/** How many kinds a smoke run tries, chosen by its seed. */
const SMOKE_KINDS = { nobody: 16, host: 1, writer: 1 };
/** Bad calls under way at a time. */
const SIDE_BY_SIDE = 6;
/** Of each actor, in MiB: what an app may take is to be seen soon, on a small machine too. */
const ACTOR_MEMORY_MB = 64;
const RANDOM_CALLS = 60;
/** Fewer than would quarantine the app. */
const RANDOM_CRASHES = LIMITS.restartIntensity - 1;
/** Codes that a neighbour may be answered with where its host or the writer is replaced. */
const LOST_WITH_PROCESS = / (500 HANDLER_ERROR|503 OVERLOADED)$/;

export const runaway: Campaign = {
  name: 'runaway',
  question:
    'When an app loops, floods, eats memory, crashes or never answers: who else notices, and is the cause named?',
  run: async (context) => {
    const { gateway, remove } = makeGateway({
      config: { handlerHosts: 1, actorMemoryMb: ACTOR_MEMORY_MB, automationTimeoutMs: AUTOMATION_MS },
    });
    const endpoint = await startEndpoint();
    await gateway.start();
    try {
      return await new Runaway(gateway, endpoint.url, context).run();
    } finally {
      endpoint.close();
      await remove();
    }
  },
};

class Runaway {
  readonly #gateway: TestGateway;
  readonly #endpoint: string;
  readonly #context: CampaignContext;
  readonly #trials: Trial[] = [];
  readonly #ledger = new Ledger();
  readonly #figures: Figure[] = [];
  readonly #violations: string[] = [];
  #hostPeak = 0;

  constructor(gateway: TestGateway, endpoint: string, context: CampaignContext) {
    this.#gateway = gateway;
    this.#endpoint = endpoint;
    this.#context = context;
  }

  /** A part that ends early leaves what was measured and violated before it in the report. */
  async run(): Promise<CampaignReport> {
    for (const part of [() => this.#parts(), () => this.#verifyRows()]) {
      try {
        await part();
      } catch (error) {
        this.#violations.push(`It ended early: ${(error as Error).stack}`);
      }
    }
    return { figures: this.#figures, violations: this.#violations, skipped: [] };
  }

  async #parts(): Promise<void> {
    const { extent, random, progress } = this.#context;
    const rounds = this.#context.rounds ?? ROUNDS[extent];
    for (const id of GOOD) await this.#gateway.upload(id, ledgerApp(id));
    progress('the good apps alone');
    await this.#phase('alone', 'nobody', () => pause(ALONE_MS[extent]));
    for (let round = 1; round <= rounds; round++) await this.#round(round, random.fork());
    this.#sumUp(rounds);
    await this.#crashAtRandom(random.fork());
    await this.#automations();
    if (extent === 'full') await this.#endlessWrites();
    progress('a storm of crashes');
    const storm = await runStorm(this.#gateway, STORM_SECONDS[extent]);
    this.#figures.push(...storm.figures);
    this.#violations.push(...storm.violations);
  }

  #sumUp(rounds: number): void {
    const slowest = (times: number[]): string => `${Math.round(Math.max(...times))} ms`;
    const late = `${TIMEOUT_MS} ms, late from ${TIMEOUT_MS + ANSWER_GRACE_MS} ms`;
    const toDeadline = this.#trials.filter(({ timeoutMs }) => timeoutMs === TIMEOUT_MS);
    this.#figures.push(
      { name: 'kinds of misbehaviour × rounds', value: `${this.#trials.length / rounds} × ${rounds}` },
      {
        name: 'trials contained as they must be',
        value: `${this.#trials.filter(({ violations }) => violations.length === 0).length} of ${this.#trials.length}`,
      },
      { name: `slowest answer (deadline ${late})`, value: slowest(toDeadline.map(({ answeredMs }) => answeredMs)) },
      {
        name: 'slowest recovery of a bad app, cause named',
        value: slowest(this.#trials.map(({ recoveredMs }) => recoveredMs)),
      },
      { name: `host’s memory at most (actorMemoryMb ${ACTOR_MEMORY_MB})`, value: `${this.#hostPeak} MiB` },
    );
  }

  async #verifyRows(): Promise<void> {
    const { violations, rows } = this.#ledger.verify(this.#gateway.dataDir);
    this.#figures.push({ name: 'rows of the good apps verified', value: String(rows) });
    this.#violations.push(...violations);
  }

  async #round(round: number, random: Random): Promise<void> {
    const { extent, progress } = this.#context;
    const named = new Map<Reach, Kind[]>(
      (['nobody', 'host', 'writer'] as const).map((reach) => {
        const kinds = random.shuffled(KINDS).filter((kind) => (kind.reach ?? 'nobody') === reach);
        return [reach, extent === 'smoke' ? kinds.slice(0, SMOKE_KINDS[reach]) : kinds];
      }),
    );
    const kindsOf = (reach: Reach): Kind[] => named.get(reach) ?? [];
    const id = (kind: Kind): string => `bad-${kind.name}`;
    for (const kind of [...named.values()].flat()) await install(this.#gateway, id(kind), kind, this.#endpoint);
    const trial = async (kind: Kind): Promise<void> => {
      const outcome = await runTrial(this.#gateway, id(kind), kind, round);
      this.#trials.push(outcome);
      outcome.violations.forEach(progress);
      this.#violations.push(...outcome.violations.map((what) => `Round ${round}: ${what}`));
    };
    progress(
      `round ${round}: ${kindsOf('nobody').length} kinds that nobody else may notice, ${SIDE_BY_SIDE} side by side`,
    );
    await this.#phase(`contained ${round}`, 'nobody', async () => {
      const waiting = kindsOf('nobody').values();
      const caller = async (): Promise<void> => {
        for (const kind of waiting) await trial(kind);
      };
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, caller));
    });
    for (const reach of ['host', 'writer'] as const) {
      for (const kind of kindsOf(reach)) {
        progress(`round ${round}: ${kind.name}, which its ${reach} may not survive`);
        await this.#phase(`${kind.name} ${round}`, reach, () => trial(kind));
      }
    }
  }

  /** Calls of which a few crash their thread, seeded: all others are answered. */
  async #crashAtRandom(random: Random): Promise<void> {
    const crash = `async ({ input }) => {
      if (!input.crash) return 'fine';
      setTimeout(() => { throw new Error('at random'); });
      await new Promise(() => {});
    }`;
    await this.#gateway.upload('bad-at-random', appOf('bad-at-random', { queries: { bad: crash } }));
    const crashes = new Set(Array.from({ length: RANDOM_CRASHES / 2 }, () => random.between(0, RANDOM_CALLS - 1)));
    await this.#phase('crash at random', 'nobody', async () => {
      for (let n = 0; n < RANDOM_CALLS; n++) {
        const { status, text } = await this.#gateway.read('bad-at-random', 'bad', { n, crash: crashes.has(n) });
        if (crashes.has(n) ? status !== 500 || !text.includes('it crashed') : status !== 200)
          this.#violations.push(`Crash at random, call ${n}: ${text.slice(0, 200)}`);
      }
    });
  }

  async #automations(): Promise<void> {
    await this.#phase('automations that misbehave', 'nobody', async () => {
      const { kinds, violations } = await runAutomationTrials(this.#gateway);
      this.#figures.push({ name: 'kinds of misbehaviour of automations', value: String(kinds) });
      this.#violations.push(...violations);
    });
  }

  /** Statements that never end, another one with each call: everybody's writes wait, but not for ever. */
  async #endlessWrites(): Promise<void> {
    const kind = KINDS.find(({ reach }) => reach === 'writer') as Kind;
    this.#context.progress(`${kind.name} again and again`);
    await install(this.#gateway, 'bad-again', kind, this.#endpoint);
    await this.#phase('endless writes again and again', 'writer', async () => {
      const calls = await untilQuarantined(this.#gateway, 'bad-again', kind, 2 * LIMITS.harmTimes + 2);
      this.#figures.push({
        name: 'endless writes until the app is quarantined',
        value: String((calls ?? Number.NaN) - 1),
      });
      if (calls === null) this.#violations.push('An app whose writes keep everybody waiting was never quarantined.');
    });
  }

  /** Does `work` beside the good apps, and judges what those noticed. */
  async #phase(name: string, reach: Reach, work: () => Promise<void>): Promise<void> {
    const before = await processesOf(this.#gateway);
    const startedAt = performance.now();
    const neighbours = new Neighbours(this.#gateway, GOOD, name.replaceAll(' ', '-'));
    const watch = setInterval(() => this.#watchHosts(before), 50);
    let heard: { noticed: Noticed; load: Load };
    try {
      await work();
    } finally {
      clearInterval(watch);
      heard = await neighbours.leave();
      this.#ledger.add(heard.load);
    }
    const { noticed, load } = heard;
    const after = await processesOf(this.#gateway);
    const violated = (what: string): void => void this.#violations.push(`${name}: ${what}`);
    load.violations.forEach(violated);
    const kept = (all: Listed[]): Listed[] =>
      all.filter(
        ({ name: process }) =>
          reach === 'nobody' || process === 'supervisor' || (reach === 'host' && process === 'writer'),
      );
    for (const what of ended(kept(lasting(before)), after)) violated(`${what}.`);
    for (const [outcome, count] of noticed.failures)
      if (reach === 'nobody' || !LOST_WITH_PROCESS.test(outcome)) violated(`neighbours heard ${outcome} × ${count}.`);
    this.#context.progress(`${name}: ${describe(noticed)}`);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    this.#figures.push({ name: `good apps, ${name} (${seconds} s)`, value: describe(noticed) });
  }

  #watchHosts(processes: Listed[]): void {
    for (const { name, pid } of processes) {
      if (pid === null || !name.startsWith('host')) continue;
      try {
        this.#hostPeak = Math.max(this.#hostPeak, Math.round(rssOf(pid) / 1024 / 1024));
      } catch {
        // It has just ended.
      }
    }
  }
}

function describe({ reads, p50, p99, readGap, writes, writeGap, failures }: Noticed): string {
  const ms = (value: number): string => value.toFixed(value < 10 ? 1 : 0);
  return `${reads} reads, p50 ${ms(p50)} ms, p99 ${ms(p99)} ms, longest gap ${ms(readGap)} ms; ${writes} writes, longest gap ${ms(writeGap)} ms; failed: ${failures.list()}`;
}
