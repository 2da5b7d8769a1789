/** The same reads, lists and durable writes on servers that isolate nothing: Bun, Deno, Node 24, workerd and the plain server. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileShim, whyNoShim } from '../../testing/shim/compile.ts';
import { gatewayUnder, measure, plainUnder, startDaemon, whileRunning } from '../compare.ts';
import type { Contender } from '../contenders.ts';
import type { Context, Scenario } from '../context.ts';
import type { LoadMeasurement } from '../measurements.ts';
import { type ReferenceServer, ROOT, startPlain, startServer } from '../servers.ts';
import type { Workload } from '../workload.ts';
import { kept, list, read, workloadOf, write } from './workloads.ts';

const FOLDER = join(ROOT, 'bench/peers');
export const PROGRAMS = join(FOLDER, 'node_modules/.bin');
const SCHEMA = join(ROOT, 'bench/app/migrations/0001_create_notes.sql');

type Env = Record<string, string>;
type Peer = { name: string; writesOnly?: true; start(folder: string, env: Env): Promise<ReferenceServer> };

const onFile =
  (...args: string[]) =>
  (folder: string) => [...args, join(folder, 'notes.sqlite'), SCHEMA];

const program = (name: string, file: string, args: (folder: string) => string[]): Peer => ({
  name,
  start: (folder, env) => startServer(name, args(folder), { program: join(PROGRAMS, file), env }),
});

const SERVER = join(FOLDER, 'server.mjs');
const onBun = onFile(SERVER);
/** One Durable Object for each app that it is asked about. */
export const WORKERD: Peer = program('workerd', 'workerd', (folder) => [
  ...['serve', join(FOLDER, 'workerd.capnp'), `--directory-path=data=${folder}`],
  // It says where it listens on the first of its descriptors.
  '--control-fd=1',
]);
const PEERS: Peer[] = [
  { name: 'plain server', start: (folder, env) => startPlain(folder, 'full', env) },
  program('Bun', 'bun', onBun),
  { ...program('Bun, group commit', 'bun', (folder) => [...onBun(folder), 'group']), writesOnly: true },
  program('Deno', 'deno', onFile('run', '-A', '--no-lock', SERVER)),
  program('Node 24', 'node', onFile(SERVER)),
  WORKERD,
];

const QUESTION =
  'How many reads, lists of 50 rows, both kept too, and durable writes a second, beside Bun, Deno, Node 24 and workerd?';
const WORKLOADS: Workload[] = [
  workloadOf('peers-read', 'How many reads of one row a second at {n} in flight, beside other servers?', null, read),
  workloadOf('peers-list', 'How many lists of 50 rows a second at {n} in flight, beside other servers?', null, list),
  kept('peers-cached', 'How many kept results of one row a second at {n} in flight, beside other servers?', read),
  kept('peers-cached-list', 'How many kept lists of 50 rows a second at {n} in flight, beside other servers?', list),
  workloadOf('peers-write', 'How many durable writes a second at {n} in flight, beside other servers?', 'full', write),
];

export const peersScenario: Scenario = { name: 'peers', question: QUESTION, run };

async function run(context: Context): Promise<LoadMeasurement[]> {
  if (!existsSync(PROGRAMS)) {
    context.progress('  They are not installed, so they are left out: npm install --no-save --prefix bench/peers');
    return [];
  }
  const measurements: LoadMeasurement[] = [];
  for (const load of WORKLOADS) measurements.push(...(await compareWithPeers(context, load)));
  return measurements;
}

function compareWithPeers(context: Context, load: Workload): Promise<LoadMeasurement[]> {
  const counterOf = fsyncCounters(context.newFolder());
  return whileRunning(async (keep) => {
    const { env, counting } = counterOf('gateway');
    const daemon = keep(await startDaemon(context, load, { env }));
    const contenders = [counting(gatewayUnder('gateway', daemon, context, load))];
    for (const { name, start } of PEERS.filter(({ writesOnly }) => !writesOnly || load.durability !== null)) {
      const counter = counterOf(name);
      const server = keep(await start(context.newFolder(), counter.env));
      contenders.push(counter.counting(plainUnder(name, server, context, load)));
    }
    return measure(context, load, contenders);
  });
}

/**
 * Counts the syncs of servers, by name, with a library in their processes; where there is no C compiler it counts nothing. `env` is for
 * the server's process; `counting` reports the syncs as the contender's commits.
 */
function fsyncCounters(folder: string) {
  const uncounted = { env: {}, counting: (contender: Contender) => contender };
  if (whyNoShim() !== null) return () => uncounted;
  const library = join(folder, 'fsyncs.so');
  compileShim('fsyncs.c', library);
  return (name: string) => {
    const file = join(folder, `${name}.fsyncs`);
    writeFileSync(file, Buffer.alloc(8));
    const count = () => Number(readFileSync(file).readBigUInt64LE());
    const counting = (contender: Contender): Contender => ({
      ...contender,
      commits: async () => ({ commits: count(), rows: (await contender.commits?.())?.rows ?? 0 }),
    });
    return { env: { LD_PRELOAD: library, FSYNCS_FILE: file }, counting };
  };
}
