/** Passkeys: accounts that have them alone, what an account may do with its own, and what does not sign in (specification, "Signing in"). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { consoleHost, enter, Origin, sessionOf } from '../testing/origins.ts';
import { addPasskey, Ceremony, Device, enterPasskey, type Lies, VERIFIED } from '../testing/passkeys.ts';
import { codeOf, enterPassword, join, joinWithPassword, visitor } from '../testing/people.ts';

const SIGN_IN = '/svc/_auth/passkey';
const ADD = '/svc/_auth/passkeys';
const NOT_KNOWN = /^This passkey does not sign in here/;

describe('passkeys', () => {
  const gateway = gatewayOfSuite({ config: { allowedHosts: ['home.lan', '192.0.2.7'] } });
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await gateway.call(method, path, { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const invite = async (invitation: object) => codeOf((await ok('POST', '/svc/_invitations', invitation)).url);
  /** Somebody who joins with a passkey, and nothing else. */
  const joinWith = async (device: Device, name: string, invitation: object = {}) => {
    const code = await invite(invitation);
    const ceremony = await Ceremony.begin(visitor(gateway), '/svc/_auth/join/options', { code, name });
    const passkey = device.make(ceremony.options, ceremony.origin);
    return await ceremony.answer('/svc/_auth/join', { code, name, passkey });
  };
  const originOf = (answer: Awaited<ReturnType<typeof joinWith>>) => sessionOf(gateway, consoleHost(gateway), answer);
  const refused = (answer: Awaited<ReturnType<typeof joinWith>>) => {
    assert.equal(answer.headers['set-cookie'], undefined);
    return [answer.status, answer.json.error.code];
  };
  const audited = async (action: string) =>
    (await ok('GET', '/svc/_audit?limit=500')).filter((entry: { action: string }) => entry.action === action);

  test('an account is made with a passkey alone, signs in with it, and also after the gateway was killed', async () => {
    const device = new Device();
    const joined = await joinWith(device, 'Ada');
    const { person } = joined.json;
    assert.deepEqual([person.name, person.email, person.methods], ['Ada', null, ['passkey']]);
    await gateway.kill();
    await gateway.start();
    const signedIn = await enterPasskey(visitor(gateway), device);
    const ada = originOf(signedIn);
    assert.equal((await ada.call('GET', '/svc/_session')).json.person.id, person.id);
    const [passkey] = (await ada.call('GET', '/svc/_people/me/passkeys')).json;
    assert.deepEqual([passkey.host, passkey.synced, passkey.lastUsedAt > 0], ['svc.localhost', false, true]);
    const shown = JSON.stringify([passkey, await ok('GET', `/svc/_people/${person.id}/passkeys`)]);
    assert.doesNotMatch(shown, /publicKey|handle|credential/i);

    // The person's own last way in stays; an owner can send a link.
    const path = `/svc/_people/me/passkeys/${passkey.id}`;
    assert.deepEqual(refused(await ada.call('DELETE', path)), [409, 'CONFLICT']);
    await ok('DELETE', `/svc/_people/${person.id}/passkeys/${passkey.id}`);
    assert.deepEqual(refused(await enterPasskey(visitor(gateway), device)), [401, 'UNAUTHORIZED']);
    const { url } = await ok('POST', `/svc/_people/${person.id}/link`, {});
    const again = await Ceremony.begin(visitor(gateway), '/svc/_auth/join/options', { code: codeOf(url) });
    const back = await again.answer('/svc/_auth/join', {
      code: codeOf(url),
      passkey: device.make(again.options, again.origin),
    });
    assert.deepEqual([back.json.person.id, back.json.person.methods], [person.id, ['passkey']]);
    assert.equal((await enterPasskey(visitor(gateway), device)).json.person.id, person.id);
  });

  test('a new account needs a name; with a password it needs an address, too', async () => {
    const code = await invite({});
    const options = await visitor(gateway).call('POST', '/svc/_auth/join/options', { body: { code } });
    assert.deepEqual([options.status, options.json.error.path], [400, 'name']);
    const take = async (body: object) => {
      const ceremony = await Ceremony.begin(visitor(gateway), '/svc/_auth/join/options', { code, name: 'Eve' });
      const passkey = new Device().make(ceremony.options, ceremony.origin);
      return ceremony.answer('/svc/_auth/join', { code, passkey, ...body });
    };
    assert.equal((await take({})).json.error.path, 'name');
    assert.equal((await take({ name: 'Eve', password: 'correct horse battery' })).json.error.path, 'email');
    assert.equal((await take({ name: 'Eve' })).status, 200);
    const again = await visitor(gateway).call('POST', '/svc/_auth/join/options', { body: { code, name: 'Eve' } });
    assert.deepEqual(refused(again), [404, 'UNKNOWN_INVITATION']);
  });

  test('an account has several: named, listed, removed; each device has one, and there are not too many', async () => {
    const { id, origin } = await joinWithPassword(gateway, 'Bob');
    const device = new Device();
    assert.equal((await addPasskey(origin, device)).json.name, 'a program');
    const second = (await addPasskey(origin, new Device(), 'Phone')).json;
    const list = '/svc/_people/me/passkeys';
    const renamed = await origin.call('PATCH', `${list}/${second.id}`, { body: { name: 'Old phone' } });
    assert.equal(renamed.json.name, 'Old phone');
    const names = (await origin.call('GET', list)).json.map(({ name }: { name: string }) => name);
    assert.deepEqual(names, ['a program', 'Old phone']);
    assert.deepEqual((await origin.call('GET', '/svc/_people/me')).json.methods, ['passkey', 'password']);

    const { options } = await Ceremony.begin(origin, `${ADD}/options`);
    const { excludeCredentials, user } = options as unknown as { excludeCredentials: unknown[]; user: { id: string } };
    assert.equal(excludeCredentials.length, 2);
    // Apps know the id of a person, and could have a device replace its passkey with one of theirs.
    assert.ok(!Buffer.from(user.id, 'base64url').toString().includes(id));

    for (let count = 2; count < LIMITS.passkeys; count++)
      assert.equal((await addPasskey(origin, new Device())).status, 201);
    assert.deepEqual(refused(await origin.call('POST', `${ADD}/options`, { body: {} })), [409, 'CONFLICT']);
    for (const one of (await origin.call('GET', list)).json)
      assert.equal((await origin.call('DELETE', `${list}/${one.id}`)).status, 200);
    assert.deepEqual((await origin.call('GET', '/svc/_people/me')).json.methods, ['password']);
    assert.deepEqual(refused(await enterPasskey(visitor(gateway), device)), [401, 'UNAUTHORIZED']);
    const gone = await origin.call('DELETE', `${list}/${second.id}`);
    assert.deepEqual(refused(gone), [404, 'UNKNOWN_PASSKEY']);
  });

  test('signing in gives the browser another session than it had', async () => {
    const [device, other] = [new Device(), new Device()];
    const before = originOf(await joinWith(device, 'Cleo'));
    const mallory = originOf(await joinWith(other, 'Mallory'));
    // As one that somebody else put into the browser.
    const browser = new Origin(gateway, mallory.host, mallory.cookie, mallory.pageKey);
    const after = originOf(await enterPasskey(browser, device));
    for (const old of [before, mallory]) {
      assert.notEqual(after.cookie, old.cookie);
      assert.notEqual(after.pageKey, old.pageKey);
    }
    const names = [before, after].map(async (one) => (await one.call('GET', '/svc/_session')).json.person?.name);
    assert.deepEqual(await Promise.all(names), ['Cleo', 'Cleo']);
    assert.equal((await mallory.call('GET', '/svc/_people/me')).status, 401);
  });

  test('what is not of this browser, this address, this person and this moment signs nobody in', async () => {
    const device = new Device();
    const { person } = (await joinWith(device, 'Dora')).json;
    const page = visitor(gateway);
    const begin = () => Ceremony.begin(page, `${SIGN_IN}/options`);
    const origin = `http://${page.host}`;

    const used = await begin();
    const passkey = device.use(used.options, origin);
    assert.equal((await used.answer(SIGN_IN, { passkey })).status, 200);
    assert.deepEqual(refused(await used.answer(SIGN_IN, { passkey })), [401, 'UNAUTHORIZED'], 'replayed');

    const [mine, theirs] = [await begin(), await begin()];
    const stolen = { passkey: device.use(mine.options, origin) };
    assert.notEqual(mine.cookie, theirs.cookie);
    for (const cookie of [theirs.cookie, 'nothing=1'])
      assert.deepEqual(refused(await mine.answer(SIGN_IN, stolen, cookie)), [401, 'UNAUTHORIZED'], cookie);
    assert.equal((await mine.answer(SIGN_IN, stolen)).status, 200, 'the browser that asked was not disturbed');

    const lies: Record<string, Lies> = {
      'the page of an app': { origin: `http://todos.${page.host}` },
      'another scheme': { origin: `https://${page.host}` },
      'another port': { origin: 'http://svc.localhost:1' },
      'another relying party': { host: 'localhost' },
      'the answer to making one': { type: 'webauthn.create' },
      'without asking for a finger or PIN': { flags: VERIFIED & 1 },
      'without anybody there': { flags: VERIFIED & 4 },
      'the account of somebody else': { handle: 'AAAA' },
    };
    for (const [what, lie] of Object.entries(lies)) {
      const answer = await enterPasskey(page, device, lie);
      assert.deepEqual(refused(answer), [401, 'UNAUTHORIZED'], what);
      assert.match(answer.json.error.message, NOT_KNOWN, what);
    }
    const altered = await begin();
    const signed = device.use(altered.options, origin);
    signed.response.authenticatorData = device.use(altered.options, origin, { counter: 9 }).response.authenticatorData;
    assert.match((await altered.answer(SIGN_IN, { passkey: signed })).json.error.message, NOT_KNOWN);

    // Nobody learns that there is such a person, and that they may not sign in.
    const unknown = new Device();
    unknown.make({ challenge: '', rp: { id: 'svc.localhost' }, user: { id: 'AAAA' } }, origin);
    const nobody = await enterPasskey(page, unknown);
    await ok('PATCH', `/svc/_people/${person.id}`, { disabled: true });
    const disabled = await enterPasskey(page, device);
    assert.deepEqual([disabled.status, disabled.json.error], [nobody.status, nobody.json.error]);
    assert.deepEqual(refused(disabled), [401, 'UNAUTHORIZED']);
    await ok('PATCH', `/svc/_people/${person.id}`, { disabled: false });
    assert.equal((await enterPasskey(page, device)).status, 200);
  });

  test('a passkey that counts less than before is refused, which is in the audit log', async () => {
    const device = new Device(5);
    const { person } = (await joinWith(device, 'Fay')).json;
    assert.equal((await enterPasskey(visitor(gateway), device)).status, 200);
    for (const counter of [device.counter, 3, 0]) {
      const answer = await enterPasskey(visitor(gateway), device, { counter });
      assert.deepEqual(refused(answer), [401, 'UNAUTHORIZED']);
      assert.match(answer.json.error.message, /a copy of it/);
    }
    const entries = await audited('passkey.refused');
    assert.deepEqual([entries.length, entries[0].target], [3, person.id]);
    assert.equal((await enterPasskey(visitor(gateway), device, { counter: 100 })).status, 200);
  });

  test('nobody gets a passkey that was made elsewhere, for somebody else, or by a page of another site', async () => {
    const [gus, hal] = [await join(gateway, 'Gus'), await join(gateway, 'Hal')];
    const origin = `http://${gus.origin.host}`;
    const begin = (person = gus) => Ceremony.begin(person.origin, `${ADD}/options`);
    const rejected = (answer: Awaited<ReturnType<typeof addPasskey>>, what: string) =>
      assert.deepEqual([answer.status, answer.json.error.path], [400, 'passkey'], `${what}: ${answer.text}`);

    const his = await begin(hal);
    const made = new Device().make(his.options, origin);
    const mine = await begin();
    rejected(await mine.answer(ADD, { passkey: made }, his.cookie), "another person's answer, with their cookie");
    rejected(await mine.answer(ADD, { passkey: made }), "another person's answer");

    const signIn = await Ceremony.begin(gus.origin, `${SIGN_IN}/options`);
    const user = { id: 'AAAA' };
    const forSignIn = new Device().make({ ...signIn.options, rp: { id: 'svc.localhost' }, user }, origin);
    rejected(await signIn.answer(ADD, { passkey: forSignIn }), 'a challenge to sign in with');

    const certificate = new Map(Object.entries({ alg: -7, sig: Buffer.alloc(8), x5c: [Buffer.alloc(8)] }));
    for (const [what, lies, statement] of [
      ['the page of an app', { origin: `http://todos.${gus.origin.host}` }, undefined],
      ['another relying party', { host: 'localhost' }, undefined],
      ['without asking for a finger or PIN', { flags: VERIFIED & 1 }, undefined],
      ['with certificates', {}, ['packed', certificate]],
      ['of a maker', {}, ['tpm', new Map()]],
    ] as const) {
      const ceremony = await begin();
      const passkey = new Device().make(ceremony.options, origin, lies, statement && [...statement]);
      rejected(await ceremony.answer(ADD, { passkey }), what);
    }

    const twice = await begin();
    const first = new Device().make(twice.options, origin);
    assert.equal((await twice.answer(ADD, { passkey: first })).status, 201);
    rejected(await twice.answer(ADD, { passkey: first }), 'replayed');

    // Of somebody else's passkey: its id is known to who saw an answer.
    const device = new Device();
    const copied = await begin(hal);
    const kept = device.make(copied.options, origin);
    assert.equal((await copied.answer(ADD, { passkey: kept })).status, 201);
    const claims = await begin();
    const claimed = new Device().make(claims.options, origin, { id: kept.id });
    assert.deepEqual(refused(await claims.answer(ADD, { passkey: claimed })), [409, 'CONFLICT']);
    const renamed = await begin();
    const other = { ...new Device().make(renamed.options, origin), id: kept.id, rawId: kept.id };
    rejected(await renamed.answer(ADD, { passkey: other }), 'an id that its device did not say');
    assert.equal((await enterPasskey(visitor(gateway), device)).json.person.id, hal.id);

    const foreign = { 'sec-fetch-site': 'same-site', origin: `http://todos.${gus.origin.host}` };
    for (const path of [`${SIGN_IN}/options`, `${ADD}/options`]) {
      const answer = await gus.origin.call('POST', path, { body: {}, headers: foreign });
      assert.deepEqual(refused(answer), [403, 'FORBIDDEN'], path);
    }
    const csrf = await Ceremony.begin(visitor(gateway), `${SIGN_IN}/options`);
    const passkey = device.use(csrf.options, origin);
    const answer = await csrf.answer(SIGN_IN, { passkey }, csrf.cookie, foreign);
    assert.deepEqual(refused(answer), [403, 'FORBIDDEN']);
  });

  test('others see and change no passkeys, the page of an app asks for none, and browsers give it none', async () => {
    await gateway.upload('notes', appOf('notes', { files: { 'index.html': '<title>Notes</title>' } }));
    const [ida, jan] = [
      await join(gateway, 'Ida', { grants: [{ app: 'notes', role: 'viewer' }] }),
      await join(gateway, 'Jan'),
    ];
    const { id } = (await addPasskey(ida.origin, new Device())).json;
    const theirs = `/svc/_people/${ida.id}/passkeys`;
    for (const [method, path] of [
      ['GET', theirs],
      ['PATCH', `${theirs}/${id}`],
      ['DELETE', `${theirs}/${id}`],
    ] as const)
      assert.equal((await jan.origin.call(method, path, { body: { name: 'x' } })).status, 403, path);
    const mine = await jan.origin.call('DELETE', `/svc/_people/me/passkeys/${id}`);
    assert.deepEqual(refused(mine), [404, 'UNKNOWN_PASSKEY']);

    const page = await enter(gateway, ida.origin, { app: 'notes' });
    for (const path of [`${ADD}/options`, `${SIGN_IN}/options`])
      assert.equal((await page.call('POST', path, { body: {} })).status, 403, path);
    const policyOf = async (origin: Origin, path: string) => (await origin.visit(path)).headers['permissions-policy'];
    assert.match(
      String(await policyOf(page, '/')),
      /publickey-credentials-create=\(\), publickey-credentials-get=\(\)/,
    );
    assert.equal(await policyOf(ida.origin, '/svc/'), undefined);
  });

  test('at a name that all apps share they sign in, also behind a proxy for HTTPS; an address that is a number has none', async () => {
    const port = new URL(gateway.url).port;
    const home = new Origin(gateway, `home.lan:${port}`, '');
    const device = new Device();
    const code = await invite({ name: 'Kim' });
    const ceremony = await Ceremony.begin(home, '/svc/_auth/join/options', { code });
    const passkey = device.make(ceremony.options, `https://${home.host}`);
    assert.equal((await ceremony.answer('/svc/_auth/join', { code, passkey })).status, 200);
    const signIn = await Ceremony.begin(home, `${SIGN_IN}/options`);
    const used = device.use(signIn.options, `https://${home.host}`);
    assert.equal((await signIn.answer(SIGN_IN, { passkey: used })).json.person.name, 'Kim');
    // It is of that host alone.
    assert.deepEqual(refused(await enterPasskey(visitor(gateway), device)), [401, 'UNAUTHORIZED']);

    const numbered = new Origin(gateway, `192.0.2.7:${port}`, '');
    const answer = await numbered.call('POST', `${SIGN_IN}/options`, { body: {} });
    assert.deepEqual(refused(answer), [403, 'FORBIDDEN']);
    assert.match(answer.json.error.message, /this address is a number\. Use them at .*or sign in here with a password/);
  });

  test('who tries many waits, as with passwords', async () => {
    const device = new Device();
    device.make({ challenge: '', rp: { id: 'svc.localhost' }, user: { id: 'AAAA' } }, 'http://svc.localhost');
    let tried = 0;
    let answer = await enterPasskey(visitor(gateway), device);
    while (answer.status === 401 && tried++ < LIMITS.attemptsOfAddress)
      answer = await enterPasskey(visitor(gateway), device);
    assert.deepEqual([answer.status, answer.json.error.code], [429, 'RATE_LIMITED']);
    assert.ok(Number(answer.headers['retry-after']) > 0);
    assert.equal((await enterPassword(gateway, 'bob@example.org')).status, 429);
  });
});
