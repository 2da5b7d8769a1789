// ctx.blobs in the real daemon: queries, actions and automations with the files of their app, live and in a draft.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';
import { runToEnd } from '../testing/runs.ts';

const MiB = 1024 * 1024;
const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

/** What a handler does with a put that fails → the call's code; null where it handled it. The put is refused by the gateway. */
const LARGE = `ctx.blobs.put(Buffer.alloc(${10 * MiB}))`;
/** Files are stored one after the other. */
const LATER = `await ctx.blobs.put('later')`;
const UNAWAITED: [what: string, statements: string, code: string | null][] = [
  ['nothing', `${LARGE};`, 'QUOTA_EXCEEDED'],
  ['nothing, and returns after it failed', `${LARGE}; ${LATER};`, 'QUOTA_EXCEEDED'],
  ['awaits it in a function that nobody awaits', `(async () => { await ${LARGE}; })(); ${LATER};`, 'QUOTA_EXCEEDED'],
  ['nothing, and its content is refused', `ctx.blobs.put(7); ${LATER};`, 'HANDLER_ERROR'],
  ['nothing, and its type is refused', `ctx.blobs.put('x', { type: 'none' });`, 'HANDLER_ERROR'],
  ['nothing, and another one is stored', `${LARGE}; await ctx.blobs.put('beside');`, 'QUOTA_EXCEEDED'],
  ['catches it', `${LARGE}.catch(() => {}); ${LATER};`, null],
  ['catches it, and returns before it fails', `${LARGE}.catch(() => {});`, null],
  ['awaits it later', `const put = ${LARGE}; ${LATER}; try { await put; } catch {}`, null],
];
const full = appOf('full', {
  actions: Object.fromEntries(
    UNAWAITED.map(([, statements], at) => [`put${at}`, `async ({ ctx }) => { ${statements} return { status: 202 }; }`]),
  ),
  automations: {
    careless: `async ({ ctx }) => { ${LARGE}; ${LATER}; return { summary: 'done' }; }`,
    careful: `async ({ ctx }) => { ${LARGE}.catch(() => {}); return { summary: 'done' }; }`,
  },
  manifest: { blobQuotaMb: 1 },
});

const ALBUM = appOf('album', {
  queries: {
    text: 'async ({ input, ctx }) => { const file = await ctx.blobs.get(input.sha256); return file && Buffer.from(file).toString(); }',
    stat: 'async ({ input, ctx }) => ctx.blobs.stat(input.sha256)',
    bad: `async ({ ctx }) => ctx.blobs.put('from a query')`,
  },
  actions: {
    put: `async ({ input, ctx }) => {
      const content = input.repeat ? Buffer.alloc(input.repeat, 'x') : input.text;
      return { status: 201, body: await ctx.blobs.put(content, input.type && { type: input.type }) };
    }`,
    forget: `async ({ input, ctx }) => { void ctx.blobs.put(input.text); return { status: 202 }; }`,
    many: `async ({ ctx }) => {
      const puts = Array.from({ length: 40 }, (_, n) => ctx.blobs.put('file ' + n));
      return { body: (await Promise.all(puts)).map(({ size }) => size) };
    }`,
    remove: 'async ({ input, ctx }) => ({ body: { deleted: await ctx.blobs.delete(input.sha256) } })',
    odd: 'async ({ input, ctx }) => ({ body: await ctx.blobs.put(...[[undefined], [7], [{}], ["x", { type: "none" }]][input.n]) })',
    views: `async ({ ctx }) => {
      const bytes = new Uint8Array([1, 2, 3, 4]);
      const kept = [bytes.buffer, bytes.subarray(1, 3), new DataView(bytes.buffer, 2)];
      return { body: await Promise.all(kept.map((content) => ctx.blobs.put(content))) };
    }`,
  },
  automations: {
    nightly: `async ({ ctx }) => {
      const stored = await ctx.blobs.put(new Uint8Array([104, 105]), { type: 'text/plain' });
      const text = new TextDecoder().decode(await ctx.blobs.get(stored.sha256));
      return { output: { stored, text, known: await ctx.blobs.stat(stored.sha256), gone: await ctx.blobs.delete(stored.sha256) } };
    }`,
  },
  manifest: { blobQuotaMb: 18 },
});

const errorOf = ({ status, json }: Answer): [number, string] => [status, json.error.code];

describe('ctx.blobs', () => {
  // Drafts need the git store.
  const gateway = gatewayOfSuite({ store: 'git' });
  before(async () => {
    const uploaded = await gateway.upload('album', ALBUM);
    assert.equal(uploaded.status, 201, uploaded.text);
  });

  const put = async (input: object): Promise<Answer> => gateway.write('album', 'put', input);

  test('handlers store, read and delete files', async () => {
    const stored = await put({ text: 'a note' });
    const name = sha256('a note');
    assert.deepEqual(stored.json.data.body, { sha256: name, size: 6, type: 'text/plain; charset=utf-8' });
    assert.equal((await gateway.call('GET', `/svc/album/_blobs/${name}`)).text, 'a note');
    assert.equal((await gateway.read('album', 'text', { sha256: name })).json.data, 'a note');
    assert.deepEqual((await gateway.read('album', 'stat', { sha256: name })).json.data, stored.json.data.body);

    assert.equal((await put({ text: 'a,b', type: 'text/csv' })).json.data.body.type, 'text/csv');
    await gateway.call('PUT', '/svc/album/_blobs', { body: 'from a page', headers: { 'content-type': 'text/html' } });
    assert.equal((await gateway.read('album', 'text', { sha256: sha256('from a page') })).json.data, 'from a page');

    const remove = (sha: unknown) => gateway.write('album', 'remove', { sha256: sha });
    assert.deepEqual((await remove(name)).json.data.body, { deleted: true });
    for (const sha of [name, 'x', 7, null, '../data.sqlite', 'x'.repeat(10_000)])
      assert.deepEqual((await remove(sha)).json.data.body, { deleted: false }, String(sha).slice(0, 70));
    for (const sha of [name, 'x', 7, null, '../data.sqlite'])
      for (const query of ['text', 'stat'])
        assert.equal((await gateway.read('album', query, { sha256: sha })).json.data, null);

    const bytes = Buffer.from([1, 2, 3, 4]);
    const views = await gateway.write('album', 'views', {});
    assert.deepEqual(
      views.json.data.body.map((record: { sha256: string }) => record.sha256),
      [bytes, bytes.subarray(1, 3), bytes.subarray(2)].map(sha256),
    );
  });

  test('a put that is not awaited is stored before the answer, and concurrent ones are stored one after the other', async () => {
    assert.equal((await gateway.write('album', 'forget', { text: 'not awaited' })).status, 202);
    assert.equal((await gateway.call('GET', `/svc/album/_blobs/${sha256('not awaited')}`)).text, 'not awaited');
    const many = await gateway.write('album', 'many', {});
    assert.deepEqual(many.json.data.body.length, 40);
    assert.equal((await gateway.call('GET', `/svc/album/_blobs/${sha256('file 39')}`)).text, 'file 39');
  });

  for (const [at, [what, , code]] of UNAWAITED.entries()) {
    test(`a put fails, and the handler does with it: ${what}`, async () => {
      if (at === 0) assert.equal((await gateway.upload('full', full)).status, 201);
      const answer = await gateway.write('full', `put${at}`);
      if (code === null) assert.equal(answer.status, 202, answer.text);
      else assert.equal(answer.json.error?.code, code, answer.text);
    });
  }

  test('a put of an automation that fails and that it does not handle fails the run', async () => {
    const careless = await runToEnd(gateway, 'full/careless');
    assert.deepEqual([careless.state, careless.error?.code], ['error', 'QUOTA_EXCEEDED'], JSON.stringify(careless));
    assert.equal((await runToEnd(gateway, 'full/careful')).state, 'ok');
  });

  test('a put that is not allowed is refused, with a code that the caller sees', async () => {
    const query = await gateway.read('album', 'bad');
    assert.deepEqual(errorOf(query), [500, 'HANDLER_ERROR']);
    assert.match(query.json.error.message, /ctx\.blobs\.put is for actions and automations/);
    for (const n of [0, 1, 2, 3])
      assert.deepEqual(errorOf(await gateway.write('album', 'odd', { n })), [500, 'HANDLER_ERROR']);

    assert.equal((await put({ repeat: 16 * MiB })).json.data.body.size, 16 * MiB);
    const large = await put({ repeat: 16 * MiB + 1 });
    assert.match(large.json.error.message, /up to 16 MiB/);
    assert.deepEqual(errorOf(await put({ repeat: 3 * MiB })), [507, 'QUOTA_EXCEEDED']);
    const file = Buffer.alloc(1.5 * MiB, 'y');
    assert.equal((await gateway.call('PUT', '/svc/album/_blobs', { body: file })).status, 201);
    assert.deepEqual(errorOf(await put({ repeat: MiB })), [507, 'QUOTA_EXCEEDED']);
    // The thread keeps running.
    assert.equal((await put({ text: 'small' })).status, 201);
  });

  test('an automation has the files of its app', async () => {
    const run = await runToEnd(gateway, 'album/nightly');
    const stored = { sha256: sha256('hi'), size: 2, type: 'text/plain' };
    assert.deepEqual(run.output, { stored, text: 'hi', known: stored, gone: true }, JSON.stringify(run));
  });

  test('a draft reads the files of the live app, and stores and deletes its own', async () => {
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    const inDraft = (tool: string, body: object) =>
      gateway.call('POST', `/svc/_draft/s1/_tool/${tool}`, { body: { app: 'album', ...body } });
    const text = async (sha: string) =>
      (await inDraft('svc_read', { query: 'text', input: { sha256: sha } })).json.data;
    await put({ text: 'live' });
    assert.equal(await text(sha256('live')), 'live');
    assert.equal((await inDraft('svc_write', { action: 'put', input: { text: 'draft' } })).status, 201);
    assert.equal(await text(sha256('draft')), 'draft');
    assert.equal((await gateway.read('album', 'text', { sha256: sha256('draft') })).json.data, null);
    const removed = await inDraft('svc_write', { action: 'remove', input: { sha256: sha256('live') } });
    assert.deepEqual(removed.json.data.body, { deleted: true });
    assert.equal(await text(sha256('live')), null);
    assert.equal((await gateway.read('album', 'text', { sha256: sha256('live') })).json.data, 'live');
  });
});
