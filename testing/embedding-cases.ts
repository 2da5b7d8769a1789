/** The examples of embedding, and what each of them must do in the same way. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { appOf } from './apps.ts';
import type { TestGateway } from './gateway.ts';
import { Host } from './host.ts';

/** How an example checks who calls: by the gateway's token, not at all, or by a sign-in of its own. */
type Guard = 'token' | 'nobody' | 'sign-in';

export type Example = { file: string; guard: Guard; home: RegExp; stopBy: 'SIGTERM' | 'SIGINT' };

export const EXAMPLES: readonly Example[] = [
  { file: 'express.js', guard: 'sign-in', home: /<p>Ada<\/p><a href="\/svc\/">Apps<\/a>/, stopBy: 'SIGTERM' },
  { file: 'fastify.js', guard: 'token', home: /^\{"apps":"\/svc\/"\}$/, stopBy: 'SIGINT' },
  { file: 'hono.js', guard: 'token', home: /^\{"apps":"\/svc\/"\}$/, stopBy: 'SIGTERM' },
  { file: 'node.js', guard: 'nobody', home: /^<a href="\/svc\/">Apps<\/a>$/, stopBy: 'SIGINT' },
];

export const PASSWORD = 'a password of the test';

export const NOTES = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')", who: '({ ctx }) => ctx.user' },
  actions: {
    add: {
      run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
      writes: ['notes'],
    },
  },
  files: { 'index.html': '<!doctype html><title>Notes</title>', 'big.json': JSON.stringify('x'.repeat(299_998)) },
});

/** Starts an example as its owner would; its client has the rights of an owner. */
export async function startExample({ file, guard }: Example): Promise<Host> {
  const host = new Host([join('examples/embedding', file)], { SIGN_IN_PASSWORD: PASSWORD });
  await host.listening(guard === 'token');
  if (guard === 'sign-in') host.gateway.headers = { cookie: await signInAs(host.gateway, 'ada') };
  return host;
}

/** The cookie of somebody who signs in at a host. */
export async function signInAs(gateway: TestGateway, name: string, password = PASSWORD): Promise<string> {
  const answer = await gateway.call('POST', '/sign-in', {
    body: new URLSearchParams({ name, password }).toString(),
    // As a browser that has not signed in yet: the session of one that has would end.
    headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: '' },
  });
  const [cookie = ''] = answer.headers['set-cookie'] ?? [];
  assert.equal(answer.status, cookie === '' ? 401 : 303, answer.text);
  return cookie.split(';', 1)[0] ?? '';
}

/** Of each example, in this order: the later ones use the app of the earlier. */
export const CASES: { name: string; run(gateway: TestGateway, example: Example): Promise<void> }[] = [
  {
    name: "answers its own addresses, and leaves the gateway's to it",
    run: async (gateway, { home }) => {
      assert.match((await gateway.call('GET', '/')).text, home);
      assert.equal((await gateway.call('GET', '/svcx')).status, 404);
      assert.equal((await gateway.call('GET', '/svc/_health')).json.ok, true);
      assert.equal((await gateway.call('GET', '/svc/nothing/')).json.error.code, 'UNKNOWN_APP');
    },
  },
  {
    name: 'an app is uploaded, described, opened, called and followed',
    run: async (gateway) => {
      assert.equal((await gateway.upload('notes', NOTES)).status, 201);
      const described = await gateway.call('POST', '/svc/_tool/svc_describe', { body: { app: 'notes' } });
      assert.equal(described.json.data.app, 'notes');
      assert.match((await gateway.call('GET', '/svc/notes/')).text, /<script src="\/svc\/_client\.js"/);
      assert.equal((await gateway.call('GET', '/svc/notes/big.json')).bytes.length, 300_000);
      // Also of what the gateway has to read or ask for first.
      for (const path of ['/svc/notes/big.json', '/svc/_apps/notes/versions', '/svc/_system', '/svc/nothing/']) {
        const shown = async (method: string) => {
          const { status, headers } = await gateway.call(method, path);
          return [status, headers['content-type'], path === '/svc/_system' || headers['content-length']];
        };
        assert.deepEqual(await shown('HEAD'), await shown('GET'), path);
      }

      const changes = await gateway.stream('/svc/notes/_changes');
      assert.equal((await gateway.write('notes', 'add', { text: 'Milk' })).status, 201);
      assert.equal(JSON.parse((await changes.next()).data).table, 'notes');
      changes.close();
      assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'Milk' }]);
    },
  },
  {
    name: 'what has no form, is too large or breaks off is answered in words, and the host goes on',
    run: async (gateway) => {
      const broken = await gateway.call('POST', '/svc/_tool/svc_read', { body: '{"app":' });
      assert.deepEqual([broken.status, broken.json.error.code], [400, 'BAD_REQUEST']);
      const large = await gateway.call('POST', '/svc/_tool/svc_read', { body: Buffer.alloc(5 * 1024 * 1024) });
      assert.deepEqual([large.status, large.json.error.code], [413, 'PAYLOAD_TOO_LARGE']);
      const noArchive = await gateway.upload('notes', Buffer.from('no archive'));
      assert.deepEqual([noArchive.status, noArchive.json.error.code], [400, 'INVALID_ARCHIVE']);
      assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
    },
  },
  {
    name: 'who is not let in is refused, in the way of the host',
    run: async (gateway, { guard }) => {
      const own = gateway.headers;
      gateway.headers = {};
      const answer = await gateway.read('notes', 'list', {}, { token: null });
      gateway.headers = own;
      const link = await gateway.call('POST', '/svc/_session/links');
      const tokens = await gateway.call('GET', '/svc/_tokens');
      if (guard === 'nobody') assert.deepEqual(answer.json.data, [{ text: 'Milk' }]);
      else assert.equal(answer.json.error.code, 'UNAUTHORIZED');
      assert.deepEqual([link.status, tokens.status], guard === 'token' ? [201, 200] : [404, 404]);
    },
  },
];

/** The last line of an example that is started at a port which is taken, and its exit code. */
export async function startedAtTakenPort({ file }: Example): Promise<{ code: number | null; said: string }> {
  const other = createServer();
  await once(other.listen(0, '127.0.0.1'), 'listening');
  const host = new Host([join('examples/embedding', file)], {}, String((other.address() as AddressInfo).port));
  try {
    return await host.failed();
  } finally {
    other.close();
    await host.remove();
  }
}
