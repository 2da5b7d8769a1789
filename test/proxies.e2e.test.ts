/** The gateway behind the reverse proxies of deploy/, which run for real: names, sign-in, streams, large bodies, addresses. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { checkConfig } from '../supervisor/config.ts';
import { appOf } from '../testing/apps.ts';
import { makeGateway, root, type TestGateway } from '../testing/gateway.ts';
import { type Answered, type RecipeProxy, startRecipe, withoutProxy } from '../testing/recipes.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const MiB = 1024 * 1024;
/** Two reads a minute for each visitor. */
const READS = 2;
const APP = appOf('notes', {
  migrations: ['CREATE TABLE items (title TEXT)'],
  queries: { list: { run: '({ db }) => db.all("SELECT title FROM items")', public: true } },
  actions: {
    add: { run: '({ db, input }) => db.run("INSERT INTO items VALUES (?)", input.title)', writes: ['items'] },
  },
  files: { 'index.html': '<!doctype html><html lang="en"><title>Notes</title></html>' },
  manifest: { tables: ['items'] },
});

const jsonOf = ({ body }: Answered) => JSON.parse(body.toString());

for (const kind of ['nginx', 'caddy'] as const) {
  describe(`behind ${kind}`, { skip: withoutProxy(kind) }, () => {
    let gateway: TestGateway;
    let proxy: RecipeProxy;
    const ends: (() => unknown)[] = [];
    before(async () => {
      const config = {
        appDomain: 'apps.example.org',
        trustedProxies: ['127.0.0.1'],
        publicLimits: { reads: READS, writes: 0 },
      };
      const made = makeGateway({ config });
      ends.push(made.remove);
      gateway = made.gateway;
      await gateway.start();
      assert.equal((await gateway.upload('notes', APP)).status, 201);
      proxy = await startRecipe({ after: (end) => ends.push(end) }, kind, Number(new URL(gateway.url).port));
    });
    after(async () => {
      for (const end of ends.reverse()) await end();
    });
    const bearer = () => ({ authorization: `Bearer ${gateway.token}` });
    const write = (title: string) =>
      proxy.ask('POST', '/svc/_tool/svc_write', {
        headers: bearer(),
        body: JSON.stringify({ app: 'notes', action: 'add', input: { title } }),
      });

    test('the console, apps and drafts have their names, and a browser is signed in over HTTPS only', async () => {
      const made = await proxy.ask('POST', '/svc/_session/links', { headers: bearer(), body: '{"open":"notes"}' });
      const link = new URL(jsonOf(made).url);
      assert.equal(link.origin, `https://${proxy.domain}`);
      const code = new URLSearchParams(link.hash.slice(1)).get('link');
      const headers = { 'content-type': 'application/json', origin: link.origin };
      const signedIn = await proxy.ask('POST', '/svc/_session', { headers, body: JSON.stringify({ link: code }) });
      assert.equal(signedIn.status, 200, signedIn.body.toString());
      const [cookie = ''] = [signedIn.headers['set-cookie'] ?? []].flat();
      assert.match(cookie, /^__Host-svc_session=.*; Secure/);
      const own = { cookie: cookie.split(';')[0] ?? '', 'svc-page-key': jsonOf(signedIn).pageKey };
      assert.equal(jsonOf(await proxy.ask('GET', '/svc/_session', { headers: own })).signedIn, true);
      const page = await proxy.ask('GET', '/', { host: `notes.${proxy.domain}`, headers: { accept: 'text/html' } });
      assert.equal(page.status, 303);
      assert.equal(new URL(String(page.headers.location)).origin, link.origin);
      const draft = await proxy.ask('GET', '/', { host: `abc--notes.draft.${proxy.domain}` });
      assert.notEqual(draft.status, 421, draft.body.toString());
    });

    test('an event arrives while its stream is open', async () => {
      const stream = await proxy.events('/svc/notes/_changes', bearer());
      let seen = '';
      const until = async (text: string): Promise<void> => {
        if (seen.includes(text)) return;
        const { value, done } = await inTime(stream.next(), `${text} in ${seen}`, LONG_MS);
        assert.ok(!done, seen);
        seen += value;
        return until(text);
      };
      assert.equal((await write('Milk')).status, 200);
      await until('items');
    });

    test('a large file goes up and comes down', async () => {
      const photo = randomBytes(8 * MiB);
      const stored = await proxy.ask('PUT', '/svc/notes/_blobs', {
        headers: { ...bearer(), 'content-type': 'image/jpeg', 'content-length': photo.length },
        body: photo,
      });
      assert.equal(stored.status, 201, stored.body.toString());
      const back = await proxy.ask('GET', `/svc/notes/_blobs/${jsonOf(stored).sha256}`, { headers: bearer() });
      assert.ok(back.body.equals(photo));
    });

    test('a body without a length is buffered, or streamed, as the document says', async () => {
      const { edge } = (await gateway.call('GET', '/svc/_system')).json;
      const answer = await proxy.ask('POST', '/svc/_tool/svc_read', {
        headers: { ...bearer(), 'transfer-encoding': 'chunked' },
        body: JSON.stringify({ app: 'notes', query: 'list' }),
      });
      const isTaken = kind === 'nginx' || edge === 'node';
      assert.equal(answer.status, isTaken ? 200 : 411, answer.body.toString());
      if (!isTaken) assert.equal(jsonOf(answer).error.code, 'LENGTH_REQUIRED');
    });

    test('a visitor is identified by the address that the proxy saw, whatever the request says', async () => {
      const statuses: number[] = [];
      for (let i = 0; i <= READS; i++) {
        const answer = await proxy.ask('POST', '/svc/_tool/svc_read', {
          host: `notes.${proxy.domain}`,
          headers: { 'x-forwarded-for': `203.0.113.${i}` },
          body: JSON.stringify({ app: 'notes', query: 'list' }),
        });
        statuses.push(answer.status);
      }
      assert.deepEqual(statuses, [200, 200, 429]);
    });

    test('plain HTTP redirects to HTTPS', async () => {
      const answer = await fetch(`http://127.0.0.1:${proxy.httpPort}/svc/`, { redirect: 'manual' });
      // With a foreign name, because fetch sets the Host.
      assert.ok([301, 308].includes(answer.status), String(answer.status));
    });
  });
}

test('the configuration beside them is valid', () => {
  checkConfig(JSON.parse(readFileSync(join(root, 'deploy/config.json'), 'utf8')), 'deploy/config.json');
});
