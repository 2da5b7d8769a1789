/** The campaign of apps that misbehave in every way we know: only they notice, the cause is named, and a mended version helps. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LIMITS } from '../../protocol/limits.ts';
import { inParallel } from '../../storage/files/atomic-file.ts';
import { appOf } from '../../testing/apps.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { rssOf } from '../../testing/processes.ts';
import type { Random } from '../../testing/random.ts';
import { pause } from '../../testing/waiting.ts';
import { Ledger, ledgerApp } from '../../testing/write-ledger.ts';
import type { Campaign, CampaignContext } from './campaign.ts';
import { describe, Neighbours, QuietNeighbours, quietApp } from './neighbours.ts';
import { AUTOMATION_MS, runAutomationTrials } from './runaway/automations.ts';
import { badApp, KINDS, type Kind, type Reach, TIMEOUT_MS } from './runaway/kinds.ts';
import { actorsOf, ended, type Listed, lasting, processesOf } from './runaway/processes.ts';
import { runStorm } from './runaway/storm.ts';
import { ANSWER_GRACE_MS, runTrial, type Trial, untilQuarantined } from './runaway/trial.ts';

const GOOD = ['good-1', 'good-2', 'good-3'];
/** In the commons. */
const QUIET = ['quiet-1', 'quiet-2', 'quiet-3'];
/** Of one answer to them, whatever others do. A busy machine may take longer, so that it is told and not judged. */
const QUIET_LIMIT_MS = 400;
const DRIP_MS = 100;
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
    const server = await startEndpoint();
    await gateway.start();
    try {
      await runOn(gateway, `http://127.0.0.1:${(server.address() as AddressInfo).port}`, context);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  },
};

/** A server that other people might run: it accepts and never answers, and `/drip` answers for ever, a byte at a time. */
async function startEndpoint(): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.url !== '/drip') return;
    const drip = setInterval(() => response.write('.'), DRIP_MS);
    response.on('close', () => clearInterval(drip));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

async function runOn(gateway: TestGateway, endpoint: string, context: CampaignContext): Promise<void> {
  const { extent, random, report, progress } = context;
  const trials: Trial[] = [];
  const ledger = new Ledger();
  let hostPeak = 0;

  async function parts(): Promise<void> {
    const rounds = context.rounds ?? ROUNDS[extent];
    for (const id of GOOD) await gateway.install(id, ledgerApp(id));
    for (const id of QUIET) await gateway.install(id, quietApp(id));
    progress('the good apps alone');
    await phase('alone', 'nobody', () => pause(ALONE_MS[extent]));
    for (let round = 1; round <= rounds; round++) await oneRound(round, random.fork());
    sumUp(rounds);
    await crashAtRandom(random.fork());
    await phase('automations that misbehave', 'nobody', () => runAutomationTrials(gateway, report));
    if (extent === 'full') await endlessWrites();
    progress('a storm of crashes');
    await runStorm(gateway, STORM_SECONDS[extent], report);
  }

  function sumUp(rounds: number): void {
    const slowest = (times: number[]): string => `${Math.round(Math.max(...times))} ms`;
    const late = `${TIMEOUT_MS} ms, late from ${TIMEOUT_MS + ANSWER_GRACE_MS} ms`;
    const toDeadline = trials.filter(({ timeoutMs }) => timeoutMs === TIMEOUT_MS);
    const contained = trials.filter(({ violations }) => violations.length === 0);
    const recovered = slowest(trials.map(({ recoveredMs }) => recoveredMs));
    report.figure('kinds of misbehaviour × rounds', `${trials.length / rounds} × ${rounds}`);
    report.figure('trials contained as they must be', `${contained.length} of ${trials.length}`);
    report.figure(`slowest answer (deadline ${late})`, slowest(toDeadline.map(({ answeredMs }) => answeredMs)));
    report.figure('slowest recovery of a bad app, cause named', recovered);
    report.figure(`host’s memory at most (actorMemoryMb ${ACTOR_MEMORY_MB})`, `${hostPeak} MiB`);
  }

  async function oneRound(round: number, chance: Random): Promise<void> {
    const kindsOf = (reach: Reach): Kind[] => {
      const kinds = chance.shuffled(KINDS).filter((kind) => (kind.reach ?? 'nobody') === reach);
      return extent === 'smoke' ? kinds.slice(0, SMOKE_KINDS[reach]) : kinds;
    };
    const trial = async (kind: Kind): Promise<void> => {
      const id = `bad-${kind.name}`;
      // In every other round its queries begin in the commons.
      await gateway.install(id, badApp(id, kind, endpoint, { ownThread: round % 2 === 0 }));
      const outcome = await runTrial(gateway, id, kind, round);
      trials.push(outcome);
      outcome.violations.forEach(progress);
      report.violated(`Round ${round}`, outcome.violations);
    };
    const contained = kindsOf('nobody');
    progress(`round ${round}: ${contained.length} kinds that nobody else may notice, ${SIDE_BY_SIDE} side by side`);
    await phase(`contained ${round}`, 'nobody', () => inParallel(contained, SIDE_BY_SIDE, trial));
    for (const reach of ['host', 'writer'] as const) {
      for (const kind of kindsOf(reach)) {
        progress(`round ${round}: ${kind.name}, which its ${reach} may not survive`);
        await phase(`${kind.name} ${round}`, reach, () => trial(kind));
      }
    }
  }

  /** Calls of which a few crash their thread, seeded: all others are answered. */
  async function crashAtRandom(chance: Random): Promise<void> {
    const crash = `async ({ input }) => {
      if (!input.crash) return 'fine';
      setTimeout(() => { throw new Error('at random'); });
      await new Promise(() => {});
    }`;
    await gateway.install('bad-at-random', appOf('bad-at-random', { queries: { bad: crash } }));
    const crashes = new Set(Array.from({ length: RANDOM_CRASHES / 2 }, () => chance.between(0, RANDOM_CALLS - 1)));
    await phase('crash at random', 'nobody', async () => {
      for (let n = 0; n < RANDOM_CALLS; n++) {
        const { status, text } = await gateway.read('bad-at-random', 'bad', { n, crash: crashes.has(n) });
        if (crashes.has(n) ? status !== 500 || !text.includes('it crashed') : status !== 200)
          report.violated(`Crash at random, call ${n}`, text.slice(0, 200));
      }
    });
  }

  /** Statements that never end, another one with each call: everybody's writes wait, but not for ever. */
  async function endlessWrites(): Promise<void> {
    const kind = KINDS.find(({ reach }) => reach === 'writer') as Kind;
    progress(`${kind.name} again and again`);
    await gateway.install('bad-again', badApp('bad-again', kind, endpoint));
    await phase('endless writes again and again', 'writer', async () => {
      const calls = await untilQuarantined(gateway, 'bad-again', kind, 2 * LIMITS.harmTimes + 2);
      report.figure('endless writes until the app is quarantined', (calls ?? Number.NaN) - 1);
      if (calls === null) report.violated(kind.name, 'an app that keeps all writes waiting was never quarantined.');
    });
  }

  /** Does `work` beside the good apps, and judges what those noticed. */
  async function phase(name: string, reach: Reach, work: () => Promise<void>): Promise<void> {
    const before = await processesOf(gateway);
    const startedAt = performance.now();
    const neighbours = new Neighbours(gateway, GOOD, name.replaceAll(' ', '-'));
    const quiet = new QuietNeighbours(gateway, QUIET);
    const watch = setInterval(() => watchHosts(before), 50);
    try {
      await work();
    } finally {
      clearInterval(watch);
      await Promise.all([neighbours.stop(), quiet.stop()]);
      ledger.add(neighbours.load);
    }
    const after = await processesOf(gateway);
    report.violated(name, neighbours.violations);
    if (reach === 'nobody') await judgeQuiet(name, quiet);
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

  /** They stay where they are, whatever others do there. */
  async function judgeQuiet(name: string, { violations, slowestMs }: QuietNeighbours): Promise<void> {
    report.violated(name, violations);
    for (const { app, place, placeReason } of await actorsOf(gateway))
      if (QUIET.includes(app) && place !== 'commons') report.violated(name, `${app} left the commons: ${placeReason}.`);
    const kept = slowestMs <= QUIET_LIMIT_MS ? 'kept' : 'exceeded';
    report.figure(
      `quiet apps, ${name}, slowest answer`,
      `${Math.round(slowestMs)} ms; ${QUIET_LIMIT_MS} ms, which a quiet machine keeps: ${kept}`,
    );
  }

  function watchHosts(processes: Listed[]): void {
    for (const { name, pid } of processes) {
      if (pid === null || !name.startsWith('host')) continue;
      try {
        hostPeak = Math.max(hostPeak, Math.round(rssOf(pid) / 1024 / 1024));
      } catch {
        // It has just ended.
      }
    }
  }

  await parts().catch((error: Error) => report.violations.push(`It ended early: ${error.stack}`));
  const { violations, rows } = ledger.verify(gateway.dataDir);
  report.figure('rows of the good apps verified', rows);
  report.violated('the good apps', violations);
}
