/** Three nodes and PostgreSQL with a synchronous standby, struck in every way that a cluster has to survive. */
import { HANG_MS } from '../../../testing/clients.ts';
import { whyNoPostgres } from '../../../testing/postgres.ts';
import { eventually, pause, within } from '../../../testing/waiting.ts';
import type { Campaign, CampaignContext } from '../campaign.ts';
import { FAULTS, type Fault } from './faults.ts';
import { Follower } from './followers.ts';
import { Cluster } from './nodes.ts';
import { checkRegister, type Link, pages, Registers, registerApp } from './registers.ts';
import { Shelf } from './shelf.ts';

const ROUNDS = { full: 100, smoke: 3 };
/** Before fresh databases and nodes. */
const ROUNDS_A_CLUSTER = 10;
/** How long a fault lasts: shorter and longer than a lease. */
const LASTS_MS: [number, number] = [300, 8000];
/** Spread over the nodes. */
const APPS = ['ada', 'bob', 'cyd', 'dee'];
/** Of them, those whose automation fires each second. */
const FIRING = ['ada', 'bob'];
const WRITERS = 2;
const READERS = 1;

export const cluster: Campaign = {
  name: 'cluster',
  question:
    'Is every acknowledged write of a cluster there, once, in one order that all nodes show, whatever fails of its nodes, network, clocks and database?',
  whyNot: whyNoPostgres,
  async run(context) {
    const rounds = context.rounds ?? ROUNDS[context.extent];
    for (let done = 0; done < rounds; done += ROUNDS_A_CLUSTER)
      if (!(await strikeCluster(context, [done + 1, Math.min(rounds, done + ROUNDS_A_CLUSTER)]))) break;
  },
};

/** Rounds on a fresh cluster. False when it did not come back. */
async function strikeCluster(campaign: CampaignContext, [first, last]: [number, number]): Promise<boolean> {
  // What is drawn here depends on the seed and the cluster, not on what became of others before.
  const context = { ...campaign, random: campaign.random.fork() };
  const { random, report, progress } = context;
  const cluster = await Cluster.start(context);
  try {
    if (first === 1) report.skipped.push(...cluster.missing.map(({ why }) => why));
    const away = new Set<Fault['needs']>(cluster.missing.map(({ what }) => what));
    const faults = FAULTS.filter(({ name, needs }) => !away.has(needs) && name.includes(context.only ?? ''));
    const nodes = cluster.nodes.map(({ gateway }) => gateway);
    for (const app of APPS) await install(cluster, app);
    const registers = new Registers(nodes, { apps: APPS, writers: WRITERS, readers: READERS, random: random.fork() });
    const followers = APPS.map((app) => new Follower(nodes, app, random.fork()));
    const shelf = new Shelf(nodes, random.fork());
    const parts = { cluster, registers, followers, shelf };
    let isHealthy = (await within(HANG_MS, registers.healed(performance.now()))) !== 'late';
    if (!isHealthy) report.violated(`round ${first}`, 'not all worked before it.');
    for (let round = first; isHealthy && round <= last; round++) {
      const own = random.fork();
      const fault = own.pick(faults);
      const where = `round ${round} (${fault.name})`;
      isHealthy = await strike(context, { ...parts, fault, where, random: own });
      report.add(`rounds: ${fault.name}`);
      progress(`${where}: ${report.violations.length} violations so far`);
    }
    await Promise.all([registers.stop(), shelf.stop()]);
    await verify(context, `rounds ${first} to ${last}`, parts);
    await Promise.all(followers.map((follower) => follower.stop()));
    return isHealthy;
  } finally {
    await cluster.end();
  }
}

async function install({ nodes }: Cluster, app: string): Promise<void> {
  const node = nodes[APPS.indexOf(app) % nodes.length]?.gateway;
  const files = registerApp(app, { fires: FIRING.includes(app) });
  let last = 'nothing';
  const isThere = async () => {
    const answer = await node?.upload(app, files);
    last = answer?.text ?? last;
    return (answer?.status ?? 500) < 300;
  };
  // Buckets may be on their way to the node that joined last.
  if (!(await eventually(HANG_MS, isThere, 100))) throw new Error(`The upload of ${app} was answered ${last}`);
}

type Parts = { cluster: Cluster; registers: Registers; followers: Follower[]; shelf: Shelf };

/** False when not all works again. */
async function strike(
  { report }: CampaignContext,
  {
    cluster,
    registers,
    followers,
    fault,
    where,
    random,
  }: Parts & { fault: Fault; where: string; random: CampaignContext['random'] },
): Promise<boolean> {
  const giveUp = (what: string): false => {
    const logs = cluster.nodes.map(({ name, gateway }) => `${name}: ${gateway.log.slice(-1500)}`);
    report.violated(where, [what, ...logs]);
    return false;
  };
  if ((await within(HANG_MS, registers.more(random.between(10, 40)))) === 'late')
    return giveUp('nothing went well before it.');
  try {
    const end = await fault.strike(cluster, random);
    await pause(Math.max(fault.leastMs ?? 0, random.between(...LASTS_MS)));
    await end();
  } catch (error) {
    return giveUp(`it could not be struck: ${(error as Error).stack}`);
  }
  const since = performance.now();
  if ((await within(2 * HANG_MS, registers.healed(since))) === 'late')
    return giveUp(`not all works again: ${registers.missing.join(', ')}.`);
  report.measured(`${fault.name}, from its end until every app works at every node`, performance.now() - since);
  const deaf = await Promise.all(followers.map(async (one) => ((await one.hears(HANG_MS)) ? [] : one.app)));
  report.violated(
    where,
    deaf.flat().map((app) => `the stream of ${app} says nothing any more.`),
  );
  return true;
}

/** What is stored, as the cluster tells it, and as a node makes it of the database alone. */
async function verify(
  { report, progress }: CampaignContext,
  where: string,
  { cluster, registers, followers, shelf }: Parts,
): Promise<void> {
  const { operations, sent } = registers;
  report.violated(where, [...registers.violations, ...followers.flatMap(({ violations }) => violations)]);
  for (const follower of followers) {
    report.violated(where, await follower.check(operations.get(follower.app) ?? []));
    report.add('resets on change streams', follower.resets);
  }
  const [first] = cluster.nodes;
  if (first === undefined) return;
  await Promise.all(cluster.nodes.map((node) => cluster.kill(node)));
  await cluster.restart(first, true);
  for (const app of APPS) {
    const chain = await pages<Link>(first.gateway, app, 'all', 0, ({ n }) => n);
    report.violated(where, checkRegister(app, chain, operations.get(app) ?? [], sent));
    report.add('writes stored', chain.length);
  }
  report.violated(where, await shelf.check(first.gateway));
  report.addAll('uploads', shelf.outcomes);
  for (const app of FIRING) {
    const fires = await pages<{ key: string; times: number }>(first.gateway, app, 'fires', '', ({ key }) => key);
    report.violated(
      where,
      fires
        .filter(({ times }) => times > 1)
        .map(({ key, times }) => `${app}: what was due at ${key} ran ${times} times.`),
    );
    report.add('automations fired', fires.length);
  }
  for (const list of operations.values()) {
    const writes = list.filter(({ was }) => was !== null).length;
    report.add('writes acknowledged', writes);
    report.add('reads', list.length - writes);
  }
  report.add('writes repeated with their key', registers.repeats);
  report.add('writes whose outcome nobody is told', registers.unknown);
  report.addAll('answers', registers.outcomes);
  progress(`${where}: ${report.violations.length} violations so far`);
}
