import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { Layout } from '../../../storage/layout.ts';
import { startWriter } from '../../../testing/run-ledger.ts';
import { OneRuntimeDatabase, RuntimeTables } from '../../runtime/runtime-databases.ts';
import { Attachments } from './attachment-store.ts';
import { ChatStore, makeChatTables, nameOf } from './chat-store.ts';

async function setUp(t: TestContext) {
  const writer = await startWriter(t);
  const db = writer.client('runtime');
  const clock = { now: 1_700_000_000_000 };
  const layout = new Layout(join(writer.folder, 'data'));
  mkdirSync(layout.app('notes').dir, { recursive: true });
  const warnings: string[] = [];
  const log = { warn: (_fields: unknown, message?: string) => void warnings.push(String(message)) };
  const now = () => clock.now;
  const tables = new RuntimeTables(new OneRuntimeDatabase(db), makeChatTables);
  const attachments = new Attachments({ tables, layout, log, now });
  t.after(() => attachments.stop());
  const conversations = new ChatStore({ tables, layout, log, now });
  const store = (text: string, type = 'text/plain') =>
    attachments.store('notes', Readable.from([Buffer.from(text)]), type);
  /** A message that has them. */
  const say = async (conversation: string, ...sha256s: string[]) => {
    const taken = await attachments.ofMessage(
      'notes',
      sha256s.map((sha256) => ({ sha256 })),
    );
    const open = await conversations.open(nameOf('notes', conversation));
    const turnId = `turn-${clock.now}-${conversation}`;
    await open.begin({ turnId, message: 'x', mode: 'full', runner: 'stub', attachments: taken, ts: clock.now }, []);
  };
  const folder = layout.app('notes').attachmentsDir;
  return { db, writer, attachments, conversations, clock, store, say, folder, warnings, layout };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

test('a file stays while a message has it, and for a day after it was last uploaded', async (t) => {
  const { attachments, conversations, clock, store, say, folder } = await setUp(t);
  for (const text of ['sent', 'unsent', 'again']) await store(text);
  await say('c1', sha256('sent'));
  clock.now += LIMITS.attachmentKeepMs - 1;
  await store('again');
  await attachments.sweep();
  assert.equal(readdirSync(folder).length, 3);
  clock.now += 2;
  await attachments.sweep();
  assert.deepEqual(readdirSync(folder).sort(), [sha256('sent'), sha256('again')].sort());
  await conversations.remove(nameOf('notes', 'c1'));
  clock.now += LIMITS.attachmentKeepMs;
  await attachments.sweep();
  assert.deepEqual(readdirSync(folder), []);
  assert.equal(await attachments.get('notes', sha256('sent')), null);
});

test('one that two conversations have goes with the second', async (t) => {
  const { attachments, conversations, clock, store, say } = await setUp(t);
  const shared = (await store('shared')).sha256;
  for (const id of ['c1', 'c2']) await say(id, shared);
  clock.now += 2 * LIMITS.attachmentKeepMs;
  await conversations.remove(nameOf('notes', 'c1'));
  await attachments.sweep();
  await assert.rejects(attachments.remove('notes', shared), { code: 'CONFLICT' });
  await conversations.remove(nameOf('notes', 'c2'));
  await attachments.sweep();
  await assert.rejects(attachments.read('notes', shared), { code: 'UNKNOWN_BLOB' });
});

test('an app has so many bytes of attachments, small ones counted as larger', async (t) => {
  const { db, attachments, store, folder } = await setUp(t);
  await store('known');
  const put = (app: string, size: number) =>
    db.run('INSERT OR REPLACE INTO attachments VALUES (?, ?, ?, ?, 1)', [app, sha256('x'), 'text/plain', size]);
  const left = LIMITS.attachmentsBytes - 2 * LIMITS.attachmentCountedBytes;
  await put('other', LIMITS.attachmentsBytes);
  await put('notes', left + 1);
  await assert.rejects(store('new'), { code: 'CONFLICT' });
  assert.deepEqual(readdirSync(folder), [sha256('known')]);
  assert.equal((await store('known')).created, false);
  await put('notes', left);
  assert.equal((await store('new')).created, true);
  await assert.rejects(store('newer'), { code: 'CONFLICT' });
  await attachments.remove('notes', sha256('new'));
  await store('newer');
});

test('a writer that dies meanwhile leaves row and file, or neither', async (t) => {
  const { writer, attachments, clock, store, folder } = await setUp(t);
  for (let round = 0; round < 3; round++) {
    const stored = store(`text ${round}`);
    await writer.replace();
    const { file } = await attachments.read('notes', (await stored).sha256);
    await file.close();
  }
  clock.now += 2 * LIMITS.attachmentKeepMs;
  const swept = attachments.sweep();
  await writer.replace();
  await swept;
  assert.deepEqual(readdirSync(folder), []);
});

test('a failed body, or an app that is removed, leaves no file', async (t) => {
  const { attachments, store, folder, layout } = await setUp(t);
  await store('kept');
  const broken = new Readable({ read: () => {} });
  const storing = attachments.store('notes', broken, 'text/plain');
  broken.push('half');
  broken.destroy(new Error('cut'));
  await assert.rejects(storing, /cut/);
  assert.deepEqual(readdirSync(folder), [sha256('kept')]);
  rmSync(layout.app('notes').dir, { recursive: true });
  await assert.rejects(store('late'), { code: 'UNKNOWN_APP' });
  assert.deepEqual(readdirSync(layout.appsDir), []);
});

test('the start removes what a crash left', async (t) => {
  const { attachments, store, folder, warnings } = await setUp(t);
  await store('kept');
  writeFileSync(join(folder, sha256('orphan')), 'orphan');
  await attachments.serve(['notes', 'without-a-folder']);
  assert.deepEqual(readdirSync(folder), [sha256('kept')]);
  assert.deepEqual(warnings, []);
});

test('agents take images and texts', async (t) => {
  const { attachments, store } = await setUp(t);
  const types: [type: string, taken: boolean][] = [
    ['image/png', true],
    ['IMAGE/JPEG', true],
    ['image/svg+xml', true],
    ['text/markdown; charset=utf-8', true],
    ['application/json', true],
    ['application/ld+json', true],
    ['image/tiff', false],
    ['application/pdf', false],
    ['application/jsonfoo', false],
    ['application/octet-stream', false],
    ['video/mp4; x=text/plain', false],
  ];
  for (const [type, taken] of types) {
    const { sha256: name } = await store(type, type);
    const asked = attachments.ofMessage('notes', [{ sha256: name, name: 'a' }]);
    if (taken) assert.equal((await asked)[0]?.type, type);
    else await assert.rejects(asked, { code: 'BAD_REQUEST', path: 'attachments[0]' }, type);
  }
});
