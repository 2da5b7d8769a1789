/** A gateway with some of every kind of stored data, and a client's view of it. For drills and old data directories. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { appOf } from './apps.ts';
import type { Answer, TestGateway } from './gateway.ts';

const SECRET = 'sk-live-0123456789';
const PHOTO = Buffer.from('a photo, for the sake of argument');

const source = (version: string) =>
  appOf('shop', {
    manifest: { version },
    queries: {
      list: "({ db }) => db.all('SELECT id, text FROM notes ORDER BY id')",
      opens: 'async ({ ctx, input }) => (await ctx.secrets.get("KEY")) === input.expected',
    },
    actions: {
      add: {
        run: "async ({ db, input }) => { await db.run('INSERT INTO notes (text) VALUES (?)', input.text); return { status: 201, body: null }; }",
        writes: ['notes'],
      },
    },
    automations: {
      count: `async ({ ctx }) => {
        const n = ((await ctx.state.get('n')) ?? 0) + 1;
        await ctx.state.set('n', n);
        return { output: n };
      }`,
    },
    migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
    files: { 'index.html': `<!doctype html><title>${version}</title>` },
  });

async function must(answer: Promise<Answer>): Promise<Answer> {
  const given = await answer;
  assert.ok(given.status >= 200 && given.status < 300, given.text);
  return given;
}

/** Two versions of an app with data, settings, a secret, a file, a run with state, and a token; on the git store a workspace. */
export async function fill(gateway: TestGateway): Promise<void> {
  for (const version of ['1.0.0', '1.1.0']) await must(gateway.upload('shop', source(version)));
  for (const text of ['Milk', 'Bread', 'Ünïcode ✓']) await must(gateway.write('shop', 'add', { text }));
  await must(gateway.call('PUT', '/svc/_apps/shop/settings', { body: { colour: 'green' } }));
  await must(gateway.call('PUT', '/svc/_apps/shop/secrets/KEY', { body: { value: SECRET } }));
  await must(gateway.call('PUT', '/svc/shop/_blobs', { body: PHOTO, headers: { 'content-type': 'image/jpeg' } }));
  await must(gateway.call('POST', '/svc/_automations/shop/count/run?wait=1', { body: {} }));
  await must(gateway.call('POST', '/svc/_tokens', { body: { name: 'reader', apps: ['shop'], tools: 'read' } }));
  const workspace = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'draft' } });
  if (workspace.status === 201)
    await must(gateway.call('PUT', '/svc/_sessions/draft/apps/shop/files/note.txt', { body: 'not published yet' }));
}

/** A client's view of the data of `fill`: equal before a backup and after its restore, or a migration. */
export async function contentOf(gateway: TestGateway): Promise<object> {
  const get = async (path: string) => (await must(gateway.call('GET', path))).json;
  const read = async (query: string, input?: object) => (await must(gateway.read('shop', query, input))).json.data;
  const sha256 = createHash('sha256').update(PHOTO).digest('hex');
  const photo = await must(gateway.call('GET', `/svc/shop/_blobs/${sha256}`));
  const draft = await gateway.call('GET', '/svc/_sessions/draft/apps/shop/files/note.txt');
  return {
    apps: (await get('/svc/_apps')).map(({ id, registeredAt, activeVersion }: Record<string, unknown>) => [
      id,
      registeredAt,
      activeVersion,
    ]),
    versions: (await get('/svc/_apps/shop/versions')).map(
      ({ versionId, active, sha256, version }: Record<string, unknown>) => [versionId, active, sha256, version],
    ),
    page: /<title>.*?<\/title>/.exec((await must(gateway.call('GET', '/svc/shop/'))).text)?.[0],
    rows: await read('list'),
    settings: (await get('/svc/_apps/shop/settings')).settings,
    secrets: (await get('/svc/_apps/shop/secrets')).map(({ name, state }: Record<string, unknown>) => [name, state]),
    secretOpens: await read('opens', { expected: SECRET }),
    photo: photo.bytes.equals(PHOTO),
    photoType: photo.headers['content-type'],
    runs: (await get('/svc/_runs?app=shop')).map(({ runId, state, output }: Record<string, unknown>) => [
      runId,
      state,
      output,
    ]),
    // Without the time of the last use.
    tokens: (await get('/svc/_tokens')).map(({ name, createdAt }: Record<string, unknown>) => [name, createdAt]),
    draft: draft.status === 200 ? draft.text : null,
  };
}
