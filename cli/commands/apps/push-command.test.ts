import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startGateway, svc, temporaryFolder } from '../../../testing/command-line.ts';

const WARNING =
  '! automations/daily.json is not read and never fires: move it to automations/daily/automation.json, with a handler.js beside it.\n';
const STORED = { id: 'notes', versionId: 'v', activeVersion: 'v', files: 1, bytes: 1, deduplicated: false };

test('svc push warns of a file that looks like an automation but is not one', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'automations', 'weekly'), { recursive: true });
  writeFileSync(join(folder, 'app.json'), JSON.stringify({ id: 'notes' }));
  writeFileSync(join(folder, 'automations', 'weekly', 'automation.json'), '{}');
  const upload = { json: { ...STORED, migrationsApplied: [], pruned: [], webhooks: [] } };
  const { env } = await startGateway(t, {
    'GET /svc/_apps/notes': { json: {} },
    'POST /svc/_apps/notes/upload': upload,
  });
  assert.equal((await svc(['push', folder], { env })).stderr, '');
  writeFileSync(join(folder, 'automations', 'daily.json'), '{}');
  for (const words of [[], ['--json'], ['--no-activate']]) {
    const { env } = await startGateway(t, {
      'GET /svc/_apps/notes': { json: {} },
      'POST /svc/_apps/notes/upload': upload,
      'POST /svc/_apps/notes/upload?activate=0': upload,
    });
    const { code, stderr } = await svc(['push', folder, ...words], { env });
    assert.deepEqual([code, stderr], [0, WARNING]);
  }
});

test('svc publish warns of such a file in the workspace', async (t) => {
  const published = {
    id: 'notes',
    version: 1,
    tag: 'notes/v1',
    sha: 'a'.repeat(40),
    migrationsApplied: [],
    webhooks: [],
  };
  const fault = {
    ref: 'notes/daily',
    code: 'flat_file',
    message: WARNING.slice(2, -1),
    path: 'automations/daily.json',
  };
  const other = { ref: 'notes/weekly', code: 'invalid_json', message: 'it is damaged' };
  const publish = { 'POST /svc/_sessions/s/publish': { json: published } };
  const list = { 'GET /svc/_automations?app=notes': { json: { rows: [], errors: [other, fault] } } };
  for (const [routes, expected] of [
    [{ ...publish, ...list }, WARNING],
    [publish, ''],
  ] as const) {
    const { env } = await startGateway(t, routes);
    const { code, stderr } = await svc(['publish', '--workspace', 's'], { env });
    assert.deepEqual([code, stderr], [0, expected]);
  }
});
