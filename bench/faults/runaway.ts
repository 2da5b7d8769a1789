/** The campaign of apps that misbehave in every way we know: only they notice, the cause is named, and a mended version helps. */
import { LIMITS } from '../../protocol/limits.ts';
import { inParallel } from '../../storage/files/atomic-file.ts';
import { appOf } from '../../testing/apps.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { rssOf } from '../../testing/processes.ts';
import type { Random } from '../../testing/random.ts';
import { pause } from '../../testing/waiting.ts';
import { Ledger, ledgerApp } from '../../testing/write-ledger.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { describe, Neighbours } from './neighbours.ts';
import { AUTOMATION_MS, runAutomationTrials } from './runaway/automations.ts';
import { startEndpoint } from './runaway/endpoint.ts';
import { badApp, KINDS, type Kind, type Reach, TIMEOUT_MS } from './runaway/kinds.ts';
import { ended, type Listed, lasting, processesOf } from './runaway/processes.ts';
import { runStorm } from './runaway/storm.ts';
import { ANSWER_GRACE_MS, runTrial, type Trial, untilQuarantined } from './runaway/trial.ts';

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
    const gateway = context.newGateway({
      config: { handlerHosts: 1, actorMemoryMb: ACTOR_MEMORY_MB, automationTimeoutMs: AUTOMATION_MS },
    });
    const endpoint = await startEndpoint();
    await gateway.start();
    try {
      await new Runaway(gateway, endpoint.url, context).run();
    } finally {
      endpoint.close();
    }
  },
};

class Runaway {
  readonly #gateway: TestGateway;
  readonly #endpoint: string;
  readonly #context: CampaignContext;
  readonly #trials: Trial[] = [];
  readonly #ledger = new Ledger();
  #hostPeak = 0;

  constructor(gateway: TestGateway, endpoint: string, context: CampaignContext) {
    this.#gateway = gateway;
    this.#endpoint = endpoint;
    this.#context = context;
  }

  async run(): Promise<void> {
    const { report } = this.#context;
    await this.#parts().catch((error: Error) => report.violations.push(`It ended early: ${error.stack}`));
    const { violations, rows } = this.#ledger.verify(this.#gateway.dataDir);
    report.figure('rows of the good apps verified', rows);
    report.violated('the good apps', violations);
  }

  async #parts(): Promise<void> {
    const { extent, random, report, progress } = this.#context;
    const rounds = this.#context.rounds ?? ROUNDS[extent];
    for (const id of GOOD) await this.#gateway.install(id, ledgerApp(id));
    progress('the good apps alone');
    await this.#phase('alone', 'nobody', () => pause(ALONE_MS[extent]));
    for (let round = 1; round <= rounds; round++) await this.#round(round, random.fork());
    this.#sumUp(rounds);
    await this.#crashAtRandom(random.fork());
    await this.#phase('automations that misbehave', 'nobody', () => runAutomationTrials(this.#gateway, report));
    if (extent === 'full') await this.#endlessWrites();
    progress('a storm of crashes');
    await runStorm(this.#gateway, STORM_SECONDS[extent], report);
  }

  #sumUp(rounds: number): void {
    const { report } = this.#context;
    const slowest = (times: number[]): string => `${Math.round(Math.max(...times))} ms`;
    const late = `${TIMEOUT_MS} ms, late from ${TIMEOUT_MS + ANSWER_GRACE_MS} ms`;
    const toDeadline = this.#trials.filter(({ timeoutMs }) => timeoutMs === TIMEOUT_MS);
    const contained = this.#trials.filter(({ violations }) => violations.length === 0);
    const recovered = slowest(this.#trials.map(({ recoveredMs }) => recoveredMs));
    report.figure('kinds of misbehaviour × rounds', `${this.#trials.length / rounds} × ${rounds}`);
    report.figure('trials contained as they must be', `${contained.length} of ${this.#trials.length}`);
    report.figure(`slowest answer (deadline ${late})`, slowest(toDeadline.map(({ answeredMs }) => answeredMs)));
    report.figure('slowest recovery of a bad app, cause named', recovered);
    report.figure(`host’s memory at most (actorMemoryMb ${ACTOR_MEMORY_MB})`, `${this.#hostPeak} MiB`);
  }

  async #round(round: number, random: Random): Promise<void> {
    const { extent, report, progress } = this.#context;
    const kindsOf = (reach: Reach): Kind[] => {
      const kinds = random.shuffled(KINDS).filter((kind) => (kind.reach ?? 'nobody') === reach);
      return extent === 'smoke' ? kinds.slice(0, SMOKE_KINDS[reach]) : kinds;
    };
    const trial = async (kind: Kind): Promise<void> => {
      const id = `bad-${kind.name}`;
      await this.#gateway.install(id, badApp(id, kind, this.#endpoint));
      const outcome = await runTrial(this.#gateway, id, kind, round);
      this.#trials.push(outcome);
      outcome.violations.forEach(progress);
      report.violated(`Round ${round}`, outcome.violations);
    };
    const contained = kindsOf('nobody');
    progress(`round ${round}: ${contained.length} kinds that nobody else may notice, ${SIDE_BY_SIDE} side by side`);
    await this.#phase(`contained ${round}`, 'nobody', () => inParallel(contained, SIDE_BY_SIDE, trial));
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
    await this.#gateway.install('bad-at-random', appOf('bad-at-random', { queries: { bad: crash } }));
    const crashes = new Set(Array.from({ length: RANDOM_CRASHES / 2 }, () => random.between(0, RANDOM_CALLS - 1)));
    await this.#phase('crash at random', 'nobody', async () => {
      for (let n = 0; n < RANDOM_CALLS; n++) {
        const { status, text } = await this.#gateway.read('bad-at-random', 'bad', { n, crash: crashes.has(n) });
        if (crashes.has(n) ? status !== 500 || !text.includes('it crashed') : status !== 200)
          this.#context.report.violated(`Crash at random, call ${n}`, text.slice(0, 200));
      }
    });
  }

  /** Statements that never end, another one with each call: everybody's writes wait, but not for ever. */
  async #endlessWrites(): Promise<void> {
    const { report, progress } = this.#context;
    const kind = KINDS.find(({ reach }) => reach === 'writer') as Kind;
    progress(`${kind.name} again and again`);
    await this.#gateway.install('bad-again', badApp('bad-again', kind, this.#endpoint));
    await this.#phase('endless writes again and again', 'writer', async () => {
      const calls = await untilQuarantined(this.#gateway, 'bad-again', kind, 2 * LIMITS.harmTimes + 2);
      report.figure('endless writes until the app is quarantined', (calls ?? Number.NaN) - 1);
      if (calls === null) report.violated(kind.name, 'an app that keeps all writes waiting was never quarantined.');
    });
  }

  /** Does `work` beside the good apps, and judges what those noticed. */
  async #phase(name: string, reach: Reach, work: () => Promise<void>): Promise<void> {
    const { report, progress } = this.#context;
    const before = await processesOf(this.#gateway);
    const startedAt = performance.now();
    const neighbours = new Neighbours(this.#gateway, GOOD, name.replaceAll(' ', '-'));
    const watch = setInterval(() => this.#watchHosts(before), 50);
    try {
      await work();
    } finally {
      clearInterval(watch);
      await neighbours.stop();
      this.#ledger.add(neighbours.load);
    }
    const after = await processesOf(this.#gateway);
    report.violated(name, neighbours.violations);
    const mayEnd = (process: string): boolean =>
      reach !== 'nobody' && process !== 'supervisor' && (reach === 'writer' || process !== 'writer');
    const kept = lasting(before).filter((one) => !mayEnd(one.name));
    report.violated(name, ended(kept, after));
    for (const [outcome, count] of neighbours.failures)
      if (reach === 'nobody' || !LOST_WITH_PROCESS.test(outcome))
        report.violated(name, `neighbours heard ${outcome} × ${count}.`);
    const noticed = `${describe(neighbours.take())}; failed: ${neighbours.failures.list()}`;
    progress(`${name}: ${noticed}`);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    report.figure(`good apps, ${name} (${seconds} s)`, noticed);
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
