import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '../../testing/command-line.ts';
import type { DescribedApp } from '../gateway/api.ts';
import { GateCheck } from './gate-check.ts';

const HANDLER = 'export default async () => {};\n';
const APP: DescribedApp = {
  app: 'notes',
  id: 'notes',
  name: 'Notes',
  version: '1',
  queries: [{ name: 'list' }],
  actions: [{ name: 'add' }],
};

function folderOf(
  t: TestContext,
  files: Record<string, string>,
): { folder: string; write: (path: string, text: string) => void } {
  const folder = temporaryFolder(t);
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  return { folder, write };
}

test('what publishing would refuse is found among the files that are sent, with its place', async (t) => {
  const files = {
    'actions/add.js': `import './nosuch.js';\nimport '../lib/.hidden.js';\n${HANDLER}`,
    'automations/digest/automation.json': '{}',
    'automations/digest/handler.js': 'export default () => Date.now();\n',
    'lib/.hidden.js': '',
    'queries/list.js': 'export default ({ db }) => db.all("DELETE FROM notes");\n',
    'queries/unused.js': 'import fs from "node:fs";\n',
  };
  const { folder, write } = folderOf(t, files);
  const sent = Object.keys(files).filter((path) => path !== 'lib/.hidden.js');
  const gates = new GateCheck(folder);
  const places = async (): Promise<string[]> =>
    ((await gates.check(APP, sent, () => false))?.issues ?? []).map(
      ({ path, keyword, line, column }) => `${path}:${line}:${column} ${keyword}`,
    );
  const ofAutomation = 'automations/digest/handler.js:1:22 date-now';
  const ofQuery = 'queries/list.js:1:35 query-handlers-read-only';
  assert.deepEqual(await places(), ['actions/add.js:1:8 import', 'actions/add.js:2:8 import', ofAutomation, ofQuery]);
  write('actions/add.js', HANDLER);
  assert.deepEqual(await places(), [ofAutomation, ofQuery], 'only the file that was edited is other than before');
  write('queries/list.js', HANDLER);
  write('automations/digest/handler.js', 'const a = 1;');
  assert.deepEqual(await places(), ['automations/digest/handler.js:1:1 default-export']);
  write('automations/digest/handler.js', HANDLER);
  assert.equal(await gates.check(APP, sent, () => false), null);
});

test('an edit that is waiting to be sent ends the check', async (t) => {
  const { folder } = folderOf(t, { 'queries/list.js': HANDLER, 'actions/add.js': '' });
  const files = ['queries/list.js', 'actions/add.js'];
  assert.notEqual(await new GateCheck(folder).check(APP, files, () => false), null);
  assert.equal(await new GateCheck(folder).check(APP, files, () => true), null);
});
