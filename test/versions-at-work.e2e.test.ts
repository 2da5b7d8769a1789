/** Code that still runs stays on the disk, however many versions are published meanwhile, and is removed afterwards. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';

const gateway = gatewayOfSuite({ store: 'git' });

const APP = 'long';
const LATER_VERSIONS = 8;
const RETENTION = 5;
/** Waits until the gate is open, and only then loads a file of its own version. */
const untilOpen = (ask: string) => `
  while ((${ask}) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const { word } = await import('../lib/late.js');`;
const GATE = "(await db.get('SELECT open FROM gate')).open";
const ASKED = "(await ctx.tool('svc_read', { app: 'long', query: 'gate' })).open";

const version = (n: number) =>
  appOf(APP, {
    manifest: { version: `${n}` },
    migrations: ['CREATE TABLE gate (open INTEGER); INSERT INTO gate VALUES (0);'],
    queries: { gate: "({ db }) => db.get('SELECT open, started FROM gate, marks')", number: `() => ${n}` },
    actions: {
      open: "({ db }) => db.run('UPDATE gate SET open = 1')",
      wait: {
        timeoutMs: 300_000,
        run: `async ({ db }) => { await db.run("UPDATE marks SET started = started + 1"); ${untilOpen(GATE)} return { body: \`${n} \${word}\` }; }`,
      },
    },
    automations: {
      slow: `async ({ ctx }) => { await ctx.tool('svc_write', { app: 'long', action: 'mark' }); ${untilOpen(ASKED).replace('../lib', '../../lib')} return { summary: \`${n} \${word}\` }; }`,
    },
    files: { 'lib/late.js': `export const word = 'late ${n}';\n` },
  });

/** With the table and the action that count how many have begun. */
function files(n: number): Record<string, string | Buffer> {
  const made = version(n);
  const manifest = JSON.parse(String(made['app.json']));
  manifest.actions.push({ name: 'mark' });
  return {
    ...made,
    'app.json': JSON.stringify(manifest),
    'actions/mark.js': "export default ({ db }) => db.run('UPDATE marks SET started = started + 1');\n",
    'migrations/0002_marks.sql': 'CREATE TABLE marks (started INTEGER); INSERT INTO marks VALUES (0);',
  };
}

test('an action and a fire of an old version end in their own code, which is removed when nothing runs in it', async () => {
  assert.equal((await gateway.upload(APP, files(1))).status, 201);
  const versionsDir = join(gateway.dataDir, 'apps', APP, 'versions');
  const action = gateway.write(APP, 'wait');
  const { runId } = (await gateway.call('POST', `/svc/_automations/${APP}/slow/run`, { body: {} })).json;
  await eventually(async () => (await gateway.read(APP, 'gate')).json.data.started === 2);

  const workspace = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json.sessionId;
  let newest = 1;
  const publish = async (): Promise<void> => {
    newest += 1;
    for (const [path, content] of Object.entries(files(newest))) {
      const at = `/svc/_sessions/${workspace}/apps/${APP}/files/${path}`;
      assert.ok((await gateway.call('PUT', at, { body: Buffer.from(content) })).status < 300, path);
    }
    const answer: Answer = await gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body: { app: APP } });
    assert.equal(answer.json.tag, `${APP}/v${newest}`, answer.text);
    assert.equal((await gateway.read(APP, 'number')).json.data, newest);
  };
  for (let n = 0; n < LATER_VERSIONS; n++) await publish();
  const kept = readdirSync(versionsDir);
  assert.ok(kept.includes('v1'), 'running code keeps its files');
  assert.ok(!kept.includes('v2'), 'those in which nothing runs go');
  assert.equal(kept.length, RETENTION);

  assert.equal((await gateway.write(APP, 'open')).status, 200);
  const answer = await action;
  assert.deepEqual([answer.status, answer.json.data?.body], [200, '1 late 1'], answer.text);
  const run = async () => (await gateway.call('GET', `/svc/_runs/${runId}`)).json;
  await eventually(async () => !['queued', 'running'].includes((await run()).state));
  const { state, summary, error } = await run();
  assert.deepEqual([state, summary], ['ok', '1 late 1'], JSON.stringify(error));

  await eventually(async () => {
    await publish();
    return !existsSync(join(versionsDir, 'v1'));
  });
  assert.equal(readdirSync(join(gateway.dataDir, 'code-store/worktrees/main')).length, RETENTION, 'its code went too');
});
