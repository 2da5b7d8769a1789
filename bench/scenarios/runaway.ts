/** One app whose handler never ends, called again and again, beside nine that behave. */
import type { SystemStatus } from '../../protocol/routes/operations/system-rows.ts';
import { Client } from '../../testing/clients.ts';
import { eventually } from '../../testing/waiting.ts';
import { APP, ROWS } from '../bench-app.ts';
import { installAll } from '../compare.ts';
import { accompanied, onGateway } from '../contenders.ts';
import { type Context, type Scenario, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import type { Finding, LoadMeasurement } from '../measurements.ts';
import { takeTurnsBeside } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { read } from './workloads.ts';

const GOOD = 9;
/** Of the good apps' calls together; a fraction of what the machine can do, since nobody is fast on a machine that is full. */
const CALLS_PER_SECOND = 450;
/** A round must be long against the second that a looping call is given. */
const ROUND_SECONDS = 3;
const QUESTION = 'How late are nine good apps when a tenth loops for ever, at {n} in flight and a fixed rate of calls?';
/** Until the loop runs. */
const LOOP_MS = 10_000;
const BESIDE = 'beside a loop';
const ALONE = 'alone';

export const runawayScenario: Scenario = {
  name: 'runaway',
  question: QUESTION,
  run: (context) => withDaemon(context, (daemon) => measure(context, daemon)),
};

async function measure(context: Context, daemon: Daemon): Promise<(LoadMeasurement | Finding)[]> {
  const good = Array.from({ length: GOOD }, (_, i) => `${APP}-good-${i}`);
  await installAll(daemon, [APP, ...good]);
  const requests = Array.from({ length: GOOD * 100 }, (_, i) =>
    httpBytes(read((i % ROWS) + 1, good[i % GOOD]).request, daemon.token),
  );
  const intervalMs = (1000 * GOOD) / CALLS_PER_SECOND;
  const alone = onGateway(ALONE, daemon, context, { requests, intervalMs });
  const beside = accompanied(BESIDE, alone, async () => {
    const pest = new Pest(daemon);
    await pest.loops();
    return () => pest.stop();
  });
  const { measured, late } = await takeTurnsBeside(context, [beside, alone], {
    scenario: 'runaway',
    question: QUESTION,
    durability: null,
    connections: GOOD,
    roundSeconds: ROUND_SECONDS,
  });
  return [measured, late('p99 beside, of p99 alone', BESIDE, ALONE, `${CALLS_PER_SECOND} calls a second`)];
}

/** Calls the looping query without a pause, each time with another input, and lifts every quarantine. */
class Pest extends Client {
  constructor(daemon: Daemon) {
    super(daemon);
    this.repeat(async (turn) => {
      const answer = await this.answered('A call of the looping query', this.gateway.read(APP, 'spin', { turn }));
      if (answer?.text.includes('QUARANTINED')) await this.#restart();
    }, 0);
  }

  /** Resolves when the handler has had the time to begin. */
  async loops(): Promise<void> {
    const isSeen = async () => {
      const { processes } = (await this.gateway.system()) as SystemStatus;
      return processes.some(({ actors }) => actors?.some(({ app, inFlight }) => app === APP && inFlight > 0));
    };
    if (!(await eventually(LOOP_MS, isSeen))) throw new Error('The looping app was never seen to run.');
  }

  override async stop(): Promise<void> {
    await super.stop();
    if (this.violations.length > 0) throw new Error(this.violations.join('\n'));
    // A fresh thread, so that nothing loops on into the next round.
    await this.#restart();
  }

  #restart(): Promise<unknown> {
    return this.gateway.call('POST', `/svc/_apps/${APP}/restart`, { body: {} });
  }
}
