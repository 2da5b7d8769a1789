/**
 * Runs a cluster on this machine, to try what nodes do: PostgreSQL with a synchronous standby, and three nodes (`npm run cluster`) or
 * another number of them (`npm run cluster -- 5`), each in a network namespace of its own with `--network`, so that the ways between
 * them can be cut. All of it is in temporary folders, and ends with Ctrl-C.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LIMITS } from '../protocol/limits.ts';
import { freePort } from '../testing/free-port.ts';
import { root, TestGateway } from '../testing/gateway.ts';
import { Network, whyNoNetwork } from '../testing/network.ts';
import { type Place, postgres, whyNoPostgres } from '../testing/postgres.ts';

const given = process.argv.slice(2);
const hasNetwork = given.includes('--network');
const [asked = '3'] = given.filter((word) => word !== '--network');
const FIRST_PORT = 8787;
const DATABASE_PORT = 5432;

if (!/^[1-9]\d?$/.test(asked)) {
  console.error(`"${asked}" is no number of nodes. Start 1 to 99 of them: npm run cluster -- 5`);
  process.exit(1);
}

const missing = whyNoPostgres() ?? (hasNetwork ? whyNoNetwork() : null);
if (missing !== null) {
  console.error(`${missing}.`);
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), 'svc-cluster-'));
// A node that was started again in another terminal may still write.
process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
const secret = randomBytes(32).toString('hex');

console.log('Starting PostgreSQL with a synchronous standby …');
const network = hasNetwork ? new Network() : null;
const primary = await postgres(undefined, network?.place('primary', DATABASE_PORT));
const standby = await postgres(primary, network?.place('standby', DATABASE_PORT));

const databases = [primary, standby].flatMap(({ url }) => ['--cluster', url]);
const nodes: TestGateway[] = [];
let within: Place['within'] = [];
for (let n = 0; n < Number(asked); n++) {
  const name = `node-${n + 1}`;
  console.log(`Starting ${name} …`);
  const place = network?.place(name, FIRST_PORT);
  within = place?.within ?? [];
  const flags = ['--node', name, ...(place === undefined ? [] : ['--host', place.host]), ...databases];
  const node = new TestGateway(join(folder, name), flags, { SVC_CLUSTER_SECRET: secret }, { root, within });
  try {
    await node.start(String(place?.port ?? (await portFor(FIRST_PORT + n))));
  } catch (error) {
    console.error(`${name}: ${(error as Error).message}`);
    process.exit(1);
  }
  nodes.push(node);
}

const first = nodes[0] as TestGateway;
const last = nodes.at(-1) as TestGateway;
const svc = `node ${join(root, 'bin/svc.js')}`;
const again = [
  'serve',
  '--data-dir',
  last.dataDir,
  '--port',
  last.port,
  '--node',
  `node-${nodes.length}`,
  ...(network === null ? [] : ['--host', new URL(last.url).hostname]),
  ...databases,
];
const apart = network !== null && nodes.length > 1 ? network.commands('node-1', `node-${nodes.length}`) : null;
console.log(`
Nodes of one cluster. Ask any of them for anything:

${nodes.map(({ url, pid }, n) => `  node-${n + 1}    ${url}   pid ${pid}`).join('\n')}

  token     ${first.token}
  primary   ${primary.url}
  standby   ${standby.url}
  folder    ${folder}

In another terminal:

  export SVC_URL=${first.url} SVC_TOKEN=${first.token}
  ${svc} cluster
  ${svc} push ${join(root, 'dist/templates/todos')}
  ${svc} write todos add '{"title": "Milk"}'
  ${svc} read todos list --url ${last.url} --token $SVC_TOKEN

A node hands over what it has, and takes its share again:

  ${svc} cluster drain node-${nodes.length}
  ${svc} cluster drain node-${nodes.length} --undo

Begin a load, and kill the last node meanwhile. Each write that was acknowledged is there, once; the others have its apps within seconds:

  for n in $(seq 100); do ${svc} write todos add '{"title": "'$n'"}'; done
  kill -9 ${last.pid}

PostgreSQL says which node has an app, to kill that one:

  psql ${primary.url} -c 'SELECT id, owner FROM svc.apps JOIN svc.buckets USING (bucket)'

Start it again, in a terminal of its own, where Ctrl-C ends it:

  ${[...within, 'env', `SVC_CLUSTER_SECRET=${secret}`, svc, ...again].join(' ')}
${
  apart === null
    ? ''
    : `
Cut the network between node-1 and node-${nodes.length}, and mend it. Each serves its own apps, and refuses calls of the other's:

  ${apart.cut}
  ${apart.mend}
`
}
Fail the database over: the primary ends as by a crash, and the standby takes its place. Writes wait meanwhile:

  kill -QUIT ${primary.pid}
  psql ${standby.url} -c 'SELECT pg_promote()'

Ctrl-C ends all of it.`);

// It stays until a signal, also when all nodes were killed.
setInterval(() => {}, LIMITS.dayMs);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // The servers of tests end at once.
  process.removeAllListeners(signal);
  process.once(signal, () => void end());
}

/** The nodes first: they hand over and say goodbye while the database is there. */
async function end(): Promise<void> {
  console.log('\nEnding …');
  await Promise.all(nodes.map((node) => node.stop()));
  await primary.stop();
  await standby.stop();
  process.exit(0);
}

/** This one where it is free. */
function portFor(port: number): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(freePort()));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(port)));
  });
}
