import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Layout } from '../../storage/layout.ts';
import type { Tree } from '../tree/tree.ts';
import { prepareCommons } from './processes.ts';

test('the commons are prepared for apps whose live version can be in them, whatever is wrong with others', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-commons-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const layout = new Layout(folder);
  const write = (file: string, content: object | string): void => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  };
  const stored = (id: string, n: number, commons: object | true): void => {
    const app = layout.app(id);
    const versionId = `${id}/v${n}`;
    mkdirSync(app.version(versionId).code, { recursive: true });
    write(app.version(versionId).summary, { versionId, commons });
    write(app.current, { activeVersion: `${id}/v2`, activatedAt: new Date(0).toISOString() });
  };
  stored('quiet', 2, true);
  stored('kept', 1, true);
  stored('kept', 2, { kept: 'thread', detail: '' });
  stored('gone', 1, true);
  write(layout.app('damaged').current, '{');
  const prepared: string[] = [];
  const tree = { prepareCommons: (id: string) => void prepared.push(id) } as unknown as Tree;
  await prepareCommons(['new', 'damaged', 'gone', 'kept', 'quiet'], layout, tree);
  assert.deepEqual(prepared, ['quiet']);
});
