// `npm run cluster`: PostgreSQL with a synchronous standby and nodes, which all end with it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { root } from '../testing/gateway.ts';
import { whyNoNetwork } from '../testing/network.ts';
import { whyNoPostgres } from '../testing/postgres.ts';
import { isRunning } from '../testing/processes.ts';
import { eventually, inTime, LONG_MS } from '../testing/waiting.ts';

const START = ['--import', 'tsx', join(root, 'scripts/cluster.ts')];

test('what is no number of nodes starts nothing', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...START, '--help'], { cwd: root, encoding: 'utf8' });
  assert.deepEqual([status, stdout], [1, '']);
  assert.match(stderr, /no number of nodes\. Start 1 to 99 of them/);
});

test('nodes serve with a standby that PostgreSQL waits for, are cut off, killed and started again; Ctrl-C ends all of it', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const hasNetwork = whyNoNetwork() === null;
  const script = spawn(process.execPath, [...START, '2', ...(hasNetwork ? ['--network'] : [])], { cwd: root });
  t.after(() => script.kill('SIGTERM'));
  let said = '';
  const isReady = new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes('Ctrl-C ends')) resolve();
    };
    script.stdout.on('data', hear);
    script.stderr.on('data', hear);
    script.once('exit', () => reject(new Error(said)));
  });
  await inTime(isReady, 'the start of the cluster', LONG_MS);
  const named = (name: string) => new RegExp(`^  ${name} +(\\S+)`, 'm').exec(said)?.[1] ?? assert.fail(said);
  const client = new pg.Client({ connectionString: named('primary') });
  await client.connect();
  const { rows } = await client.query('SELECT sync_state FROM pg_stat_replication');
  await client.end();
  assert.deepEqual(rows, [{ sync_state: 'sync' }]);
  const authorization = `Bearer ${named('token')}`;
  const ask = (path: string, body?: object) => {
    const given = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    return fetch(named('node-1') + path, { ...given, headers: { authorization } });
  };
  const live = async () => {
    const { nodes } = (await (await ask('/svc/_cluster')).json()) as { nodes: { name: string; state: string }[] };
    return nodes.filter(({ state }) => state === 'live').map(({ name }) => name);
  };
  assert.ok(await eventually(LONG_MS, async () => (await live()).join() === 'node-1,node-2'));
  const pid = Number(/node-2.*pid (\d+)/.exec(said)?.[1]);
  assert.ok(isRunning(pid));

  /** Runs the line that is printed and begins like this. */
  const run = (begin: string, before = '') => {
    const line = new RegExp(`^  ${begin}.*$`, 'm').exec(said)?.[0] ?? assert.fail(said);
    return spawn('/bin/sh', ['-c', before + line.trim()], { stdio: 'ignore' });
  };
  if (hasNetwork) {
    const lists = async (status: number) => (await ask('/svc/_apps')).status === status;
    assert.ok(await eventually(LONG_MS, () => lists(200)), 'a node asks the other one');
    assert.deepEqual(await once(run('ip .* replace'), 'exit'), [0, null]);
    assert.ok(await eventually(LONG_MS, () => lists(503)), 'the way between them is cut');
    assert.deepEqual(await once(run('ip .* del'), 'exit'), [0, null]);
    assert.ok(await eventually(LONG_MS, () => lists(200)), 'it is mended');
  }
  for (const begin of ['psql .*owner', 'kill -9', 'kill -QUIT', 'psql .*promote'])
    assert.deepEqual(await once(run(begin), 'exit'), [0, null], begin);
  const node = run('.*SVC_CLUSTER_SECRET=', 'exec ');
  t.after(() => node.kill('SIGKILL'));
  // The second time there is one.
  const stores = async () =>
    [201, 409].includes((await ask('/svc/_groups', { name: 'later' }).catch(() => null))?.status ?? 0);
  assert.ok(await eventually(LONG_MS, stores), 'it writes to the database that was the standby');
  const left = once(node, 'exit');
  node.kill('SIGTERM');
  await inTime(left, 'the end of the node', LONG_MS);
  const exited = once(script, 'exit');
  script.kill('SIGINT');
  assert.deepEqual(await inTime(exited, 'the end of the cluster', LONG_MS), [0, null]);
  assert.ok(!isRunning(pid) && !existsSync(named('folder')));
});
