/** How many webhooks a second become runs that are recorded as ended, beside as many durable writes. */
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { APP, automationFiles, benchApp, ROWS } from '../bench-app.ts';
import { BUILD_ROUNDS, whileRunning } from '../compare.ts';
import { type Contender, onServer } from '../contenders.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import { Daemon } from '../daemon.ts';
import type { LoadResult } from '../load/task.ts';
import type { LoadMeasurement } from '../measurements.ts';
import { takeTurns } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { write } from './workloads.ts';

/** Webhooks that are fired at a time, each by one connection: as many as automations have threads. */
const AT_ONCE = { full: LIMITS.fireThreads, smoke: 4 };
const APPS = Array.from({ length: 4 }, (_, i) => `${APP}-hooks-${i}`);
const ROUNDS = { full: 6, smoke: 1 };
/** Runs of each automation by hand before its round: its thread is started and its code compiled. */
const WARM_UP_RUNS = { full: 40, smoke: 1 };
/** Fewer than the runs of a round, so that every end lets go of an earlier run. */
const KEPT_RUNS = 30;
const EVENT = { type: 'order.updated', order: { id: 4711, total: 12.5, open: true } };
const QUESTION = `How many webhooks a second become runs that ended, beside svc_write, at {n} in flight, one for each slug?`;
const DURABILITY = 'full' as const;
const HOOKS = 'webhook';
const WRITES = 'svc_write';

export const webhooksScenario: Scenario = {
  name: 'webhooks',
  question: QUESTION,
  run: async (context) => {
    const rounds = sized(context, ROUNDS);
    const work = async (daemon: Daemon) => {
      const hooks = await webhooks(HOOKS, daemon, context, rounds);
      const connections = sized(context, AT_ONCE);
      const beside = writes(daemon, context, connections);
      // Code gets compiled.
      await beside.run({ connections, warmUpMs: 0, measureMs: 0 });
      return inTurns(context, [hooks, beside], rounds);
    };
    return withDaemon(context, work, { config: { durability: DURABILITY } });
  },
  ab: (context, { A, B }) =>
    whileRunning(async (keep) => {
      const rounds = sized(context, BUILD_ROUNDS);
      const { profileDir, newFolder } = context;
      const config = { ...context.config, durability: DURABILITY };
      const of = async (name: string, root: string) =>
        webhooks(name, keep(await Daemon.start({ dataDir: newFolder(), config, profileDir, root })), context, rounds);
      return inTurns(context, [await of('B', B), await of('A', A)], rounds);
    }),
};

async function inTurns(context: Context, contenders: Contender[], rounds: number): Promise<LoadMeasurement[]> {
  const load = { scenario: 'webhooks', question: QUESTION, durability: DURABILITY };
  // A burst takes what it takes.
  const turns = { ...load, connections: sized(context, AT_ONCE), rounds, measureMs: 0 };
  return [await takeTurns(context, contenders, turns)];
}

/** So many automations with a webhook each, neighbours in different apps; and the app that is written to. */
async function installHooks(daemon: Daemon, count: number): Promise<MintedWebhook[]> {
  await daemon.install(APP, benchApp());
  const names = Array.from({ length: count }, (_, i) => `hook-${i}`);
  const byName = new Map<string, MintedWebhook>();
  for (const [i, app] of APPS.entries()) {
    const own = names.filter((_, at) => at % APPS.length === i);
    const files = own.map((name) => automationFiles(name, [{ kind: 'webhook', pending: true }], { count: KEPT_RUNS }));
    const { webhooks } = await daemon.install(app, benchApp(app, Object.assign({}, ...files)));
    for (const webhook of webhooks) byName.set(webhook.automationId, webhook);
  }
  return names.map((name) => byName.get(name) as MintedWebhook);
}

/**
 * Fires every webhook of a set as often as one may be in a minute, as fast as it answers; each round takes the next set. Runs
 * by hand, which are not limited, have warmed the set's threads before.
 */
async function webhooks(name: string, daemon: Daemon, context: Context, rounds: number): Promise<Contender> {
  const size = sized(context, AT_ONCE);
  const left = await installHooks(daemon, rounds * size);
  let set: MintedWebhook[] = [];
  const burst = (requests: Buffer[], times: number): Promise<LoadResult> => {
    const repeated = requests.flatMap((request) => Array<Buffer>(times).fill(request));
    const contender = onServer(name, daemon, context, { requests: repeated, burst: true });
    return contender.run({ connections: requests.length, warmUpMs: 0, measureMs: 0 });
  };
  return {
    name,
    processes: () => daemon.processes,
    takeEventLoop: () => daemon.takeEventLoop(),
    prepare: async () => {
      set = left.splice(0, size);
      const byHand = set.map(({ ownerApp, automationId }) => {
        const path = `/svc/_automations/${ownerApp}/${automationId}/run?wait=1`;
        return httpBytes({ method: 'POST', path, body: { input: EVENT } }, daemon.token);
      });
      await burst(byHand, sized(context, WARM_UP_RUNS));
    },
    run: () => {
      const posts = set.map(({ url, secret }) =>
        httpBytes({ method: 'POST', path: new URL(url).pathname, body: EVENT }, secret),
      );
      return burst(posts, LIMITS.webhookFires);
    },
  };
}

/** As many durable writes, with as many in flight. */
function writes(daemon: Daemon, context: Context, connections: number): Contender {
  const requests = Array.from({ length: connections * LIMITS.webhookFires }, (_, i) =>
    httpBytes(write((i % ROWS) + 1).request, daemon.token),
  );
  return onServer(WRITES, daemon, context, { requests, burst: true });
}
