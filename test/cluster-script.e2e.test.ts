// `npm run cluster`: PostgreSQL with a synchronous standby and nodes, which all end with it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { root } from '../testing/gateway.ts';
import { whyNoPostgres } from '../testing/postgres.ts';
import { isRunning } from '../testing/processes.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

test('a node serves with a standby that PostgreSQL waits for; Ctrl-C ends all of it', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const script = spawn(process.execPath, ['--import', 'tsx', join(root, 'scripts/cluster.ts'), '1'], { cwd: root });
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
  const answer = await fetch(`${named('node-1')}/svc/_cluster`, { headers: { authorization } });
  const { nodes } = (await answer.json()) as { nodes: { name: string; state: string }[] };
  assert.deepEqual(
    nodes.map(({ name, state }) => [name, state]),
    [['node-1', 'live']],
  );
  const pid = Number(/pid (\d+)/.exec(said)?.[1]);
  assert.ok(isRunning(pid));
  const exited = once(script, 'exit');
  script.kill('SIGINT');
  assert.deepEqual(await inTime(exited, 'the end of the cluster', LONG_MS), [0, null]);
  assert.ok(!isRunning(pid) && !existsSync(named('folder')));
});
