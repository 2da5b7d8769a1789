// What people do with their own account: fresh sign-ins, removal, and the programs that they connected (specification, "Signing in").
import assert from 'node:assert/strict';
import { join as joinPath } from 'node:path';
import { before, describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { reading } from '../testing/databases.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { enter, type Origin } from '../testing/origins.ts';
import { addPasskey, Ceremony, Device } from '../testing/passkeys.ts';
import {
  anHourLater,
  enterPassword,
  type Joined,
  join,
  joinWithPassword,
  PASSWORD,
  visitor,
} from '../testing/people.ts';

const CONFIRM = '/svc/_auth/confirm';
const PICTURE = '/svc/_people/me/picture';
const PNG = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(32)]);
const OPTIONS = '/svc/_auth/passkey/options';

describe('an account', () => {
  const gateway = gatewayOfSuite({
    config: {
      signIn: {
        proxy: { header: 'X-Person', from: ['127.0.0.1/32'] },
        providers: {
          company: { issuer: 'http://127.0.0.1:9', clientId: 'svc', clientSecretEnv: 'PATH' },
        },
      },
    },
  });
  const device = new Device();
  let ada: Joined;
  let bob: Joined;

  before(async () => {
    ada = await joinWithPassword(gateway, 'Ada', { role: 'owner' });
    bob = await joinWithPassword(gateway, 'Bob');
    assert.equal((await addPasskey(ada.origin, device)).status, 201);
    await anHourLater(gateway);
  });

  const codeOf = async (answer: ReturnType<Origin['call']>) => {
    const { status, json } = await answer;
    return [status, json.error?.code];
  };
  const NEEDED = [403, 'FRESH_SIGN_IN_NEEDED'];

  test('who signed in a while ago confirms it before they change how they sign in', async () => {
    const { origin, id } = ada;
    const [passkey] = (await origin.call('GET', '/svc/_people/me/passkeys')).json;
    const changes: [method: string, path: string, body?: unknown][] = [
      ['POST', '/svc/_auth/passkeys/options', {}],
      ['DELETE', `/svc/_people/me/passkeys/${passkey.id}`],
      ['DELETE', `/svc/_people/${id}/passkeys/${passkey.id}`],
      ['PATCH', `/svc/_people/${id}`, { email: 'evil@example.org' }],
      ['POST', '/svc/_auth/provider/company', { link: true }],
      ['DELETE', '/svc/_people/me/identities/o_1'],
      ['DELETE', '/svc/_people/me'],
      ['DELETE', `/svc/_people/${id}`],
    ];
    for (const [method, path, body] of changes)
      assert.deepEqual(await codeOf(origin.call(method, path, { body })), NEEDED, `${method} ${path}`);
    // What is not about signing in goes on, and what an owner does for others.
    assert.equal((await origin.call('PATCH', '/svc/_people/me', { body: { name: 'Ada L.' } })).status, 200);
    assert.equal((await origin.call('PATCH', `/svc/_people/${bob.id}`, { body: { role: 'author' } })).status, 200);

    const confirm = (body: unknown, headers = {}) => origin.call('POST', CONFIRM, { body, headers });
    assert.deepEqual(await codeOf(confirm({ password: 'a wrong password' })), [401, 'UNAUTHORIZED']);
    assert.deepEqual(await codeOf(confirm({})), [403, 'FORBIDDEN'], 'the proxy names nobody');
    assert.deepEqual(await codeOf(confirm({}, { 'x-person': 'bob@example.org' })), [401, 'UNAUTHORIZED']);
    assert.deepEqual(await codeOf(origin.call('DELETE', '/svc/_people/me')), NEEDED);
    const confirmed = await confirm({ password: PASSWORD });
    assert.equal(confirmed.status, 200, confirmed.text);
    assert.ok(Math.abs(confirmed.json.until - Date.now() - LIMITS.freshSignInMs) < LIMITS.freshSignInMs / 2);
    // The session is the same: what else is open in this browser goes on.
    assert.equal((await origin.call('POST', '/svc/_auth/passkeys/options', { body: {} })).status, 200);
    const linking = await origin.call('POST', '/svc/_auth/provider/company', { body: { link: true } });
    assert.equal(linking.json.error.code, 'FETCH_FAILED');
  });

  test('it is confirmed with a passkey of the account, with the word of the proxy, and by signing in again', async () => {
    await anHourLater(gateway);
    const other = new Device();
    const carol = await join(gateway, 'Carol');
    await addPasskey(carol.origin, other);
    const { origin } = ada;
    const wrong = await Ceremony.begin(origin, OPTIONS);
    const theirs = { passkey: other.use(wrong.options, wrong.origin) };
    assert.deepEqual(await codeOf(wrong.answer(CONFIRM, theirs)), [401, 'UNAUTHORIZED']);
    const ceremony = await Ceremony.begin(origin, OPTIONS);
    const mine = { passkey: device.use(ceremony.options, ceremony.origin) };
    assert.equal((await ceremony.answer(CONFIRM, mine)).status, 200);
    assert.equal((await origin.call('POST', '/svc/_auth/passkeys/options', { body: {} })).status, 200);
    assert.deepEqual(await codeOf(ceremony.answer(CONFIRM, mine)), [401, 'UNAUTHORIZED'], 'it was answered already');

    const named = { 'x-person': 'bob@example.org' };
    assert.deepEqual(await codeOf(bob.origin.call('POST', '/svc/_auth/passkeys/options', { body: {} })), NEEDED);
    assert.equal((await bob.origin.call('POST', CONFIRM, { body: {}, headers: named })).status, 200);
    assert.equal((await bob.origin.call('POST', '/svc/_auth/passkeys/options', { body: {} })).status, 200);
    // Nobody confirms for who is not signed in, and not for the administrator.
    assert.equal((await visitor(gateway).call('POST', CONFIRM, { body: { password: PASSWORD } })).status, 401);
    assert.deepEqual(await codeOf(gateway.call('POST', CONFIRM, { body: { password: PASSWORD } })), [403, 'FORBIDDEN']);
  });

  test('a picture is one by its bytes; who is signed in sees it, an app too, and it goes with its account', async () => {
    const { json: person, status } = await bob.origin.call('PUT', PICTURE, { body: PNG });
    assert.equal(status, 200);
    const { picture } = person;
    assert.match(picture, new RegExp(`^/svc/_people/${bob.id}/picture/[0-9a-f]{32}$`));
    const refused: [status: number, code: string, bytes: Buffer][] = [
      [400, 'BAD_REQUEST', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
      [400, 'BAD_REQUEST', Buffer.from('RIFF')],
      [413, 'PAYLOAD_TOO_LARGE', Buffer.concat([PNG, Buffer.alloc(LIMITS.pictureBytes)])],
    ];
    for (const [status, code, body] of refused)
      assert.deepEqual(await codeOf(bob.origin.call('PUT', PICTURE, { body })), [status, code]);
    // Another name for its type changes nothing.
    const named = { 'content-type': 'text/html' };
    const shown = (await bob.origin.call('PUT', PICTURE, { body: PNG, headers: named })).json.picture;
    const seen = await ada.origin.visit(shown);
    assert.equal(seen.status, 200);
    const { 'content-type': type, 'x-content-type-options': sniff, 'cache-control': cache } = seen.headers;
    assert.deepEqual([type, sniff], ['image/png', 'nosniff']);
    assert.match(String(cache), /^private, .*immutable$/);
    assert.equal((await ada.origin.visit(picture)).status, 404, 'there is another one');
    assert.equal((await visitor(gateway).visit(shown)).status, 401);
    assert.deepEqual(await codeOf(bob.origin.call('PUT', `/svc/_people/${ada.id}/picture`, { body: PNG })), [
      403,
      'FORBIDDEN',
    ]);

    assert.equal((await gateway.upload('who', appOf('who', { queries: { me: '({ ctx }) => ctx.user' } }))).status, 201);
    await gateway.call('POST', '/svc/_apps/who/shares', { body: { person: bob.id, role: 'viewer' } });
    const read = () => bob.origin.call('POST', '/svc/_tool/svc_read', { body: { app: 'who', query: 'me' } });
    assert.equal((await read()).json.data.picture, shown);
    const page = await enter(gateway, bob.origin, { app: 'who' });
    assert.equal((await page.visit(shown)).status, 200, 'at the origin of the app');
    const { port } = gateway;
    await gateway.kill();
    await gateway.start(String(port));
    assert.equal((await ada.origin.visit(shown)).status, 200, 'it is stored');
    await bob.origin.call('DELETE', PICTURE);
    assert.equal((await read()).json.data.picture, undefined);
    assert.equal((await ada.origin.visit(shown)).status, 404);
    assert.equal((await bob.origin.call('PUT', PICTURE, { body: PNG })).status, 200);
  });

  test('somebody removes their own account; the last owner stays', async () => {
    const { origin } = ada;
    const refused = await origin.call('DELETE', '/svc/_people/me');
    assert.deepEqual([refused.status, refused.json.error.code], [409, 'CONFLICT']);
    assert.match(refused.json.error.message, /last owner/);
    const people = async () => (await gateway.call('GET', '/svc/_people')).json.map(({ id }: { id: string }) => id);
    assert.equal((await bob.origin.call('DELETE', '/svc/_people/me')).status, 200);
    assert.ok(!(await people()).includes(bob.id));
    assert.equal((await bob.origin.call('GET', '/svc/_people/me')).status, 401);
    const kept = (file: string) =>
      reading(file, (db) => db.prepare('SELECT count(*) FROM people_pictures').pluck().get());
    assert.equal(kept(joinPath(gateway.dataDir, 'identity.sqlite')), 0, 'no picture is left');
    assert.equal((await enterPassword(gateway, 'bob@example.org')).status, 401);

    const dora = await join(gateway, 'Dora', { role: 'owner' });
    assert.equal((await origin.call('DELETE', '/svc/_people/me')).status, 200);
    assert.ok(!(await people()).includes(ada.id));
    const [last] = (await gateway.call('GET', '/svc/_audit?limit=1')).json;
    assert.deepEqual([last.action, last.actor.name, last.target], ['person.removed', 'Ada L.', ada.id]);
    // Who has the machine removes the last owner, too.
    assert.equal((await gateway.call('DELETE', `/svc/_people/${dora.id}`)).status, 200);
  });
});
