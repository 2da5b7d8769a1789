// People of the gateway: invitations, passwords, sessions, groups and shares, and what each may do (specification, "People").
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type EventClient, openEvents } from '../testing/exchange-server.ts';
import { startGateway, type TestGateway } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, sessionOf } from '../testing/origins.ts';
import { codeOf, enterPassword, join, joinWithPassword, PASSWORD, visitor } from '../testing/people.ts';
import { inTime } from '../testing/waiting.ts';

const APP = {
  queries: {
    me: `({ ctx }) => ctx.user`,
    all: `async ({ db }) => (await db.all('SELECT n FROM t')).map(({ n }) => n)`,
  },
  actions: {
    add: { run: `async ({ db, input }) => { await db.run('INSERT INTO t VALUES (?)', input.n); }`, writes: ['t'] },
  },
  migrations: ['CREATE TABLE t (n INTEGER);'],
  files: { 'index.html': '<title>Notes</title>' },
};

describe('people', () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await gateway.call(method, path, { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const statusOf = async (origin: Origin, method: string, path: string, body?: unknown) =>
    (await origin.call(method, path, { body })).status;
  const read = (origin: Origin, app: string, query = 'all') =>
    origin.call('POST', '/svc/_tool/svc_read', { body: { app, query } });
  const write = (origin: Origin, app: string, n = 1) =>
    origin.call('POST', '/svc/_tool/svc_write', { body: { app, action: 'add', input: { n } } });
  const upload = async (id: string, gate: TestGateway = gateway) =>
    assert.equal((await gate.upload(id, appOf(id, APP))).status, 201);

  test('an invitation makes an account, once; who took it signs in with its password', async () => {
    const invited = await ok('POST', '/svc/_invitations', { name: 'Ada', email: 'ada@example.org' });
    const code = codeOf(invited.url);
    assert.equal(new URL(invited.url).origin, `http://${consoleHost(gateway)}`);
    const shown = await visitor(gateway).call('POST', '/svc/_auth/invitation', { body: { code } });
    assert.deepEqual([shown.json.name, shown.json.email, shown.json.role], ['Ada', 'ada@example.org', 'member']);
    assert.ok(!JSON.stringify(await ok('GET', '/svc/_invitations')).includes(code));

    const body = { code, password: PASSWORD };
    const joined = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    const { person } = joined.json;
    assert.deepEqual(
      [person.name, person.email, person.role, person.methods],
      ['Ada', 'ada@example.org', 'member', ['password']],
    );
    const again = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    assert.deepEqual([again.status, again.json.error.code], [404, 'UNKNOWN_INVITATION']);

    const signedIn = await enterPassword(gateway, 'ADA@example.org');
    const ada = sessionOf(gateway, consoleHost(gateway), signedIn);
    assert.equal((await ada.call('GET', '/svc/_session')).json.person.id, person.id);
    assert.equal((await ada.call('GET', '/svc/_people/me')).json.name, 'Ada');
    for (const [email, password] of [
      ['ada@example.org', 'another password'],
      ['nobody@example.org', PASSWORD],
    ] as const) {
      const refused = await enterPassword(gateway, email, password);
      assert.deepEqual(
        [refused.status, refused.json.error.message],
        [401, 'The e-mail address or the password is wrong.'],
      );
    }
    const rows = await ok('GET', '/svc/_people');
    assert.ok(!JSON.stringify(rows).includes('scrypt') && !JSON.stringify(rows).includes('argon2'));
  });

  test('of two who take the last use of an invitation at once, one does', async () => {
    const code = codeOf((await ok('POST', '/svc/_invitations', {})).url);
    const taken = await Promise.all(
      ['one', 'two'].map((name) => {
        const body = { code, name, email: `${name}@example.org`, password: PASSWORD };
        return visitor(gateway).call('POST', '/svc/_auth/join', { body });
      }),
    );
    assert.deepEqual(taken.map(({ status }) => status).sort(), [200, 404]);
    const names = (await ok('GET', '/svc/_people')).map(({ name }: { name: string }) => name);
    assert.equal(names.filter((name: string) => name === 'one' || name === 'two').length, 1);
  });

  test('a new account needs a name, an address and a long password, and the invitation stays until it is made', async () => {
    const code = codeOf((await ok('POST', '/svc/_invitations', {})).url);
    const whole: Record<string, string> = { name: 'Eve', email: 'eve@example.org', password: PASSWORD };
    const take = (body: object) => visitor(gateway).call('POST', '/svc/_auth/join', { body: { code, ...body } });
    for (const path of Object.keys(whole)) {
      const refused = await take(Object.fromEntries(Object.entries(whole).filter(([name]) => name !== path)));
      assert.deepEqual([refused.status, refused.json.error.path], [400, path], refused.text);
    }
    const short = await take({ ...whole, password: 'x'.repeat(LIMITS.passwordChars - 1) });
    assert.deepEqual([short.status, short.json.error.path], [400, 'password']);
    assert.equal((await take(whole)).status, 200);
  });

  test('roles in an app allow what they say, at the console and on the page of the app, and a share that ends takes it away', async () => {
    await upload('notes');
    await upload('other');
    const member = await join(gateway, 'Vic');
    const page = () => enter(gateway, member.origin, { app: 'notes' });
    assert.equal((await read(member.origin, 'notes')).status, 403);
    assert.match((await read(member.origin, 'notes')).text, /not shared with you/);

    const share = await ok('POST', '/svc/_apps/notes/shares', { person: member.id, role: 'viewer' });
    assert.deepEqual((await read(member.origin, 'notes', 'me')).json.data, {
      id: member.id,
      name: 'Vic',
      email: 'vic@example.org',
      role: 'viewer',
    });
    const viewer = await page();
    assert.equal((await viewer.visit('/')).status, 200);
    assert.equal((await read(viewer, 'notes')).status, 200);
    assert.deepEqual([(await write(viewer, 'notes')).status, (await read(viewer, 'other')).status], [403, 403]);
    assert.match((await write(viewer, 'notes')).text, /role in \\"notes\\" is viewer/);

    const raised = await ok('POST', '/svc/_apps/notes/shares', { person: member.id, role: 'editor' });
    assert.equal(raised.id, share.id);
    assert.equal((await write(viewer, 'notes', 7)).status, 200);
    assert.equal(await statusOf(member.origin, 'GET', '/svc/_apps/notes/shares'), 403);

    await ok('POST', '/svc/_apps/notes/shares', { email: 'vic@example.org', role: 'manager' });
    const rows = (await member.origin.call('GET', '/svc/_apps/notes/shares')).json;
    assert.deepEqual(
      rows.map((row: Record<string, unknown>) => [row.with, row.name, row.role]),
      [['person', 'Vic', 'manager']],
    );
    // On the app's own page they manage nothing.
    assert.equal(await statusOf(viewer, 'GET', '/svc/_apps/notes/shares'), 403);
    const described = await member.origin.call('POST', '/svc/_tool/svc_describe', { body: {} });
    assert.deepEqual(
      described.json.data.apps.map(({ app }: { app: string }) => app),
      ['notes'],
    );

    const ended = await member.origin.call('DELETE', `/svc/_apps/notes/shares/${share.id}`);
    assert.equal(ended.status, 200, ended.text);
    assert.deepEqual([(await read(member.origin, 'notes')).status, (await read(viewer, 'notes')).status], [403, 403]);
  });

  test('what somebody has open of an app ends when their share does, or their role is less', async () => {
    await upload('watched');
    const member = await join(gateway, 'Zoe', { grants: [{ app: 'watched', role: 'editor' }] });
    const page = await enter(gateway, member.origin, { app: 'watched' });
    const owner = await gateway.stream('/svc/watched/_changes');
    const open = (path: string) => openEvents(gateway.port, path, page.headers);
    const both = async () => [await open('/svc/watched/_changes'), await open('/svc/watched/_live?query=me')];
    const ends = async (streams: readonly EventClient[]) => {
      const all = streams.map(async (stream) => {
        assert.equal(stream.status, 200);
        while ((await stream.next()) !== undefined);
      });
      await inTime(Promise.all(all), 'the end of the streams');
    };
    const [{ id }] = await ok('GET', '/svc/_apps/watched/shares');
    // Handlers were shown the role.
    const shown = await open('/svc/watched/_live?query=me');
    await ok('POST', '/svc/_apps/watched/shares', { person: member.id, role: 'viewer' });
    await ends([shown]);
    let streams = await both();
    await ok('DELETE', `/svc/_apps/watched/shares/${id}`);
    await ends(streams);
    const { id: group } = await ok('POST', '/svc/_groups', { name: 'Watchers', members: [member.id] });
    await ok('POST', '/svc/_apps/watched/shares', { group, role: 'viewer' });
    streams = await both();
    await ok('PATCH', `/svc/_groups/${group}`, { members: [] });
    await ends(streams);
    await ok('PATCH', `/svc/_groups/${group}`, { members: [member.id] });
    streams = await both();
    await ok('PATCH', `/svc/_people/${member.id}`, { disabled: true });
    await ends(streams);
    await ok('POST', '/svc/_tool/svc_write', { app: 'watched', action: 'add', input: { n: 1 } });
    assert.equal((await owner.next()).event, 'change', 'others go on');
    owner.close();
  });

  test('groups and everyone have apps, and the strongest role counts', async () => {
    await upload('club');
    const [one, two] = [await join(gateway, 'Gil'), await join(gateway, 'Hal')];
    const group = await ok('POST', '/svc/_groups', { name: 'Club', members: [one.id] });
    await ok('POST', '/svc/_apps/club/shares', { group: group.id, role: 'editor' });
    assert.deepEqual([(await write(one.origin, 'club')).status, (await read(two.origin, 'club')).status], [200, 403]);
    const everyone = await ok('POST', '/svc/_apps/club/shares', { everyone: true, role: 'viewer' });
    assert.deepEqual([(await write(one.origin, 'club')).status, (await read(two.origin, 'club')).status], [200, 200]);
    await ok('PATCH', `/svc/_groups/${group.id}`, { members: [two.id] });
    assert.deepEqual([(await write(one.origin, 'club')).status, (await write(two.origin, 'club')).status], [403, 200]);
    await ok('DELETE', `/svc/_groups/${group.id}`);
    assert.deepEqual([(await read(two.origin, 'club')).status, (await write(two.origin, 'club')).status], [200, 403]);
    await ok('DELETE', `/svc/_apps/club/shares/${everyone.id}`);
    assert.deepEqual(await ok('GET', '/svc/_apps/club/shares'), []);
    assert.equal((await read(two.origin, 'club')).status, 403);
  });

  test('a role of the app allows the tools that it names, over all ways, as the version has it that is live', async () => {
    const roles = {
      cook: { name: 'Cook', description: 'Writes orders.', queries: ['me'], actions: '*' },
      guest: { name: 'Guest', queries: ['me'], actions: [] },
    };
    const publish = async (manifest: object) =>
      assert.equal(
        (await gateway.upload('kitchen', appOf('kitchen', { ...APP, manifest: { ...manifest } }))).status,
        201,
      );
    await publish({ roles });
    assert.deepEqual((await ok('GET', '/svc/_apps/kitchen')).roles, [
      { id: 'cook', ...roles.cook },
      { id: 'guest', ...roles.guest },
    ]);
    const wrong = await gateway.call('POST', '/svc/_apps/kitchen/shares', { body: { everyone: true, role: 'chef' } });
    assert.deepEqual(
      [wrong.json.error.code, wrong.json.error.path, wrong.json.error.message],
      ['BAD_REQUEST', 'role', '"kitchen" has no role "chef"; it has: viewer, editor, manager, cook, guest.'],
    );
    const invited = await ok('POST', '/svc/_invitations', { grants: [{ app: 'kitchen', role: 'cook' }] });
    const code = codeOf(invited.url);
    const { apps } = (await visitor(gateway).call('POST', '/svc/_auth/invitation', { body: { code } })).json;
    assert.deepEqual(apps, [
      { id: 'kitchen', name: 'kitchen', role: 'cook', roleName: 'Cook', roleDescription: 'Writes orders.' },
    ]);
    const cook = await join(gateway, 'Kit', { grants: [{ app: 'kitchen', role: 'cook' }] });
    const guest = await join(gateway, 'Gus', { grants: [{ app: 'kitchen', role: 'guest' }] });
    assert.equal((await read(cook.origin, 'kitchen', 'me')).json.data.role, 'cook');
    assert.deepEqual(
      [(await write(cook.origin, 'kitchen')).status, (await write(guest.origin, 'kitchen')).status],
      [200, 403],
    );
    assert.match(
      (await read(cook.origin, 'kitchen')).json.error.message,
      /your role in "kitchen" is Cook, which does not allow the query "all"/,
    );
    const keyed = { body: { app: 'kitchen', action: 'add', input: { n: 1 } }, headers: { 'idempotency-key': 'k' } };
    assert.equal((await guest.origin.call('POST', '/svc/_tool/svc_write', keyed)).status, 403);

    const page = await enter(gateway, guest.origin, { app: 'kitchen' });
    const upload = { body: Buffer.from('a'), headers: { 'content-type': 'text/plain' } };
    assert.match((await page.call('PUT', '/svc/kitchen/_blobs', upload)).json.error.message, /changes nothing/);
    const stream = await openEvents(gateway.port, '/svc/kitchen/_live?query=all', page.headers);
    assert.equal(stream.status, 403, 'of a live query too');
    stream.close();
    const owners = await gateway.stream('/svc/kitchen/_live?query=all');
    assert.deepEqual(JSON.parse((await owners.next()).data).data, [1], 'who may see it does');
    owners.close();
    const changes = await gateway.stream('/svc/kitchen/_changes');
    await write(cook.origin, 'kitchen');
    assert.deepEqual(JSON.parse((await changes.next()).data).by, { id: cook.id, name: 'Kit' });
    changes.close();

    const [{ id }] = await ok('POST', '/svc/_apps/kitchen/shares', { everyone: true, role: 'viewer' }).then((one) => [
      one,
    ]);
    assert.deepEqual(
      [(await read(cook.origin, 'kitchen')).status, (await write(cook.origin, 'kitchen')).status],
      [200, 200],
    );
    await ok('DELETE', `/svc/_apps/kitchen/shares/${id}`);

    await publish({ version: '2.0.0', roles: { guest: roles.guest } });
    const gone = await write(cook.origin, 'kitchen');
    assert.deepEqual([gone.status, gone.json.error.code], [403, 'FORBIDDEN']);
    assert.match(gone.json.error.message, /"kitchen" has no role "cook"/);
  });

  test('an unknown address is invited to the app; nobody gives more than they have', async () => {
    await upload('board');
    const manager = await join(gateway, 'Max', { grants: [{ app: 'board', role: 'manager' }] });
    const share = (body: object) => manager.origin.call('POST', '/svc/_apps/board/shares', { body });
    const invited = await share({ email: 'new@example.org', role: 'editor' });
    assert.deepEqual([invited.status, invited.json.with, invited.json.email], [201, 'invitation', 'new@example.org']);
    const body = { code: codeOf(invited.json.url), name: 'Neo', password: PASSWORD };
    const joined = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    const neo = sessionOf(gateway, consoleHost(gateway), joined);
    assert.equal((await write(neo, 'board')).status, 200);
    const row = (await ok('GET', '/svc/_apps/board/shares')).find(({ name }: { name: string }) => name === 'Neo');
    assert.equal(row.by, 'Max');

    assert.equal((await share({ email: 'later@example.org', role: 'viewer' })).status, 201);
    const [waiting] = (await ok('GET', '/svc/_apps/board/shares')).filter(
      (one: { with: string }) => one.with === 'invitation',
    );
    assert.equal(await statusOf(manager.origin, 'DELETE', `/svc/_apps/board/shares/${waiting.id}`), 200);
    assert.equal((await share({ role: 'viewer' })).json.error.code, 'BAD_REQUEST');
    assert.equal((await share({ role: 'viewer', everyone: true, group: 'g' })).json.error.code, 'BAD_REQUEST');
    for (const [method, path] of [
      ['GET', '/svc/_people'],
      ['POST', '/svc/_invitations'],
      ['GET', '/svc/_groups'],
      ['POST', `/svc/_people/${manager.id}/link`],
      ['GET', '/svc/_tokens'],
    ] as const)
      assert.equal(await statusOf(manager.origin, method, path, method === 'GET' ? undefined : {}), 403, path);

    const token = (await ok('POST', '/svc/_tokens', { name: 'ci', apps: ['board'], tools: 'all' })).token;
    const byToken = await gateway.call('POST', '/svc/_apps/board/shares', {
      token,
      body: { everyone: true, role: 'manager' },
    });
    assert.equal(byToken.status, 403, byToken.text);
  });

  test('an address that somebody only claims gets nothing that is meant for its owner, and goes to its owner', async () => {
    await upload('secret');
    const open = codeOf((await ok('POST', '/svc/_invitations', {})).url);
    const claims = { code: open, name: 'Mallory', email: 'boss@example.org', password: PASSWORD };
    const mallory = await visitor(gateway).call('POST', '/svc/_auth/join', { body: claims });
    assert.equal(mallory.status, 200, mallory.text);
    const shared = await ok('POST', '/svc/_apps/secret/shares', { email: 'boss@example.org', role: 'viewer' });
    assert.equal(shared.with, 'invitation');
    assert.equal((await read(sessionOf(gateway, consoleHost(gateway), mallory), 'secret')).status, 403);
    const body = { code: codeOf(shared.url), name: 'Boss', password: `${PASSWORD}!` };
    const boss = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    assert.equal(boss.status, 200, boss.text);
    assert.equal((await enterPassword(gateway, 'boss@example.org', PASSWORD)).status, 401);
    assert.equal((await enterPassword(gateway, 'boss@example.org', `${PASSWORD}!`)).json.person.name, 'Boss');
    const [row] = (await ok('GET', '/svc/_people')).filter(({ name }: { name: string }) => name === 'Mallory');
    assert.deepEqual([row.email, row.methods], [null, []]);
  });

  test('whom an author invites has no address that counts, and no owner’s address is taken by it', async () => {
    await upload('payroll');
    const author = await join(gateway, 'Mal', { role: 'author' });
    const made = await author.origin.call('POST', '/svc/_apps/mals/upload', { body: tarball(appOf('mals', APP)) });
    assert.equal(made.status, 201, made.text);
    const invited = await author.origin.call('POST', '/svc/_apps/mals/shares', {
      body: { email: 'chief@example.org', role: 'viewer' },
    });
    const body = { code: codeOf(invited.json.url), name: 'Chief', password: PASSWORD };
    const joined = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    assert.deepEqual([joined.json.person.email, joined.json.person.vouched], ['chief@example.org', false]);
    const shared = await ok('POST', '/svc/_apps/payroll/shares', { email: 'chief@example.org', role: 'viewer' });
    assert.equal(shared.with, 'invitation');
    assert.equal((await read(sessionOf(gateway, consoleHost(gateway), joined), 'payroll')).status, 403);
  });

  test('an invitation is void once its maker may not give what it gives, and its app goes with the app', async () => {
    await upload('lent');
    const manager = await join(gateway, 'Len', { grants: [{ app: 'lent', role: 'manager' }] });
    const invite = async (email: string) => {
      const body = { email, role: 'editor', expiresInDays: 3 };
      return codeOf((await manager.origin.call('POST', '/svc/_apps/lent/shares', { body })).json.url);
    };
    const take = (code: string, name: string) =>
      visitor(gateway).call('POST', '/svc/_auth/join', { body: { code, name, password: PASSWORD } });
    const [first, second, third] = [
      await invite('l1@example.org'),
      await invite('l2@example.org'),
      await invite('l3@example.org'),
    ];
    assert.equal((await take(first, 'L1')).status, 200);
    const rows = await ok('GET', '/svc/_apps/lent/shares');
    const ends = rows.find(({ name }: { name: string }) => name === 'L1').expiresAt - Date.now();
    assert.ok(ends > 2.9 * LIMITS.dayMs && ends < 3.1 * LIMITS.dayMs, 'the share ends, as was said');
    await ok('POST', '/svc/_apps/lent/shares', { person: manager.id, role: 'viewer' });
    assert.equal((await take(second, 'L2')).json.error.code, 'UNKNOWN_INVITATION');
    await ok('DELETE', `/svc/_people/${manager.id}`);
    assert.equal((await take(third, 'L3')).status, 404);
    const open = codeOf((await ok('POST', '/svc/_invitations', { grants: [{ app: 'lent', role: 'editor' }] })).url);
    await ok('DELETE', '/svc/_apps/lent?purge=1');
    await upload('lent');
    const late = await visitor(gateway).call('POST', '/svc/_auth/join', {
      body: { code: open, name: 'Late', email: 'late@example.org', password: PASSWORD },
    });
    assert.equal(late.status, 200, late.text);
    assert.equal((await read(sessionOf(gateway, consoleHost(gateway), late), 'lent')).status, 403);
  });

  test('a password that is endless is refused before anything is made of it', async () => {
    const password = '\u0301\u0316'.repeat(200_000);
    for (const [method, path, body] of [
      ['POST', '/svc/_auth/password', { email: 'ada@example.org', password }],
      ['POST', '/svc/_auth/join', { code: 'x', password }],
    ] as const) {
      const refused = await visitor(gateway).call(method, path, { body });
      assert.deepEqual([refused.status, refused.json.error.path], [400, 'password'], path);
    }
  });

  test('nobody lowers a role that is more than theirs, and a program shares nothing', async () => {
    await upload('ranks');
    const { token } = await ok('POST', '/svc/_tokens', { name: 'program', apps: ['ranks'], tools: 'all' });
    const member = await join(gateway, 'Ran', { grants: [{ app: 'ranks', role: 'manager' }] });
    const body = { person: member.id, role: 'viewer' };
    assert.equal((await gateway.call('POST', '/svc/_apps/ranks/shares', { token, body })).status, 403);
    const [{ id }] = await ok('GET', '/svc/_apps/ranks/shares');
    assert.equal((await gateway.call('DELETE', `/svc/_apps/ranks/shares/${id}`, { token })).status, 403);
    const owners = await ok('POST', '/svc/_invitations', {
      role: 'author',
      grants: [{ app: 'ranks', role: 'viewer' }],
    });
    assert.equal(await statusOf(member.origin, 'DELETE', `/svc/_apps/ranks/shares/${owners.id}`), 404);
  });

  test('a page that all apps share has nothing of the account of who is there', async (t) => {
    const shared = await startGateway(t, { config: { pageOrigins: 'shared' }, apps: ['todos'] });
    const host = `127.0.0.1:${shared.port}`;
    const invited = await shared.call('POST', '/svc/_invitations', { body: { email: 'sia@example.org' } });
    const body = { code: codeOf(invited.json.url), name: 'Sia', password: PASSWORD };
    const joined = await new Origin(shared, host, '').call('POST', '/svc/_auth/join', { body });
    const sia = sessionOf(shared, host, joined);
    const id = joined.json.person.id;
    for (const [method, path] of [
      ['GET', '/svc/_people/me'],
      ['DELETE', '/svc/_people/me'],
      ['GET', `/svc/_people/${id}/sessions`],
      ['DELETE', `/svc/_people/${id}/sessions`],
    ] as const)
      assert.equal((await sia.call(method, path)).status, 403, `${method} ${path}`);
    assert.equal((await sia.call('GET', '/svc/_session')).json.person.name, 'Sia');
  });

  test('a share that has ended gives no role any more, to handlers neither', async () => {
    await upload('past');
    const member = await join(gateway, 'Pia', { grants: [{ app: 'past', role: 'viewer' }] });
    assert.equal((await read(member.origin, 'past', 'me')).json.data.role, 'viewer');
    await ok('POST', '/svc/_apps/past/shares', { everyone: true, role: 'viewer' });
    await ok('DELETE', `/svc/_apps/past/shares/${(await ok('GET', '/svc/_apps/past/shares'))[0].id}`);
    assert.equal((await read(member.origin, 'past', 'me')).json.data.role, 'viewer');
  });

  test('authors manage the apps that they made, and owners everything', async () => {
    await upload('foreign');
    const author = await join(gateway, 'Amy', { role: 'author' });
    const made = await author.origin.call('POST', '/svc/_apps/amys/upload', { body: tarball(appOf('amys', APP)) });
    assert.equal(made.status, 201, made.text);
    assert.equal(await statusOf(author.origin, 'GET', '/svc/_apps/amys/versions'), 200);
    assert.equal(await statusOf(author.origin, 'GET', '/svc/_apps/foreign/versions'), 403);
    assert.equal(
      await statusOf(author.origin, 'POST', '/svc/_apps/amys/shares', { everyone: true, role: 'editor' }),
      201,
    );
    const appsOf = async ({ origin }: { origin: Origin }) => {
      const rows: { id: string; role?: string }[] = (await origin.call('GET', '/svc/_apps')).json;
      return rows.filter(({ id }) => id === 'amys' || id === 'foreign').map(({ id, role }) => [id, role]);
    };
    const owner = await join(gateway, 'Ora', { role: 'owner' });
    const member = await join(gateway, 'Mimi');
    assert.deepEqual([await appsOf(author), await appsOf(member)], [[['amys', 'manager']], [['amys', 'editor']]]);
    const all = [
      ['amys', undefined],
      ['foreign', undefined],
    ];
    assert.deepEqual(await appsOf(owner), all);

    const draft = async (origin: Origin, sessionId: string, app: string) => {
      assert.equal(await statusOf(origin, 'POST', '/svc/_sessions', { sessionId }), 201);
      assert.equal(await statusOf(origin, 'GET', `/svc/_sessions/${sessionId}/apps/${app}/files`), 200);
    };
    await draft(author.origin, 'amys-draft', 'amys');
    await draft(owner.origin, 'owners-draft', 'foreign');
    const drafts = async ({ origin }: { origin: Origin }) =>
      (await origin.call('GET', '/svc/_sessions')).json.map((row: { sessionId: string }) => row.sessionId);
    assert.deepEqual([await drafts(author), await drafts(member)], [['amys-draft'], []]);
    assert.deepEqual((await drafts(owner)).sort(), ['amys-draft', 'owners-draft']);
    assert.equal(await statusOf(author.origin, 'DELETE', '/svc/_sessions/owners-draft'), 403);
    assert.equal(await statusOf(member.origin, 'PATCH', '/svc/_sessions/amys-draft', { name: 'Mine' }), 403);
    assert.equal(await statusOf(author.origin, 'DELETE', '/svc/_sessions/amys-draft'), 200);
    assert.equal(await statusOf(owner.origin, 'DELETE', '/svc/_sessions/owners-draft'), 200);
    assert.equal(await statusOf(owner.origin, 'GET', '/svc/_people'), 200);
    assert.equal(await statusOf(owner.origin, 'PATCH', `/svc/_people/${author.id}`, { role: 'member' }), 200);
    assert.equal(await statusOf(author.origin, 'GET', '/svc/_apps/amys/versions'), 403);
  });

  test('each person has preferences of their own, which every app gets', async () => {
    await upload('looks');
    await ok('POST', '/svc/_apps/looks/shares', { everyone: true, role: 'viewer' });
    const [one, two] = [await join(gateway, 'Piet'), await join(gateway, 'Quirin')];
    await ok('PUT', '/_svc-user/prefs', { patch: { theme: 'light' } });
    assert.equal(await statusOf(one.origin, 'PUT', '/_svc-user/prefs', { patch: { theme: 'dark' } }), 200);
    const page = await enter(gateway, one.origin, { app: 'looks' });
    const { prefs, user } = (await page.call('GET', '/svc/_apps/looks/settings')).json;
    assert.deepEqual(
      [prefs, user],
      [{ theme: 'dark' }, { id: one.id, name: 'Piet', email: 'piet@example.org', role: 'viewer' }],
    );
    assert.equal(await statusOf(page, 'PUT', '/_svc-user/prefs', { patch: { theme: 'odd' } }), 403, 'not by a page');
    assert.deepEqual((await two.origin.call('GET', '/_svc-user/prefs')).json, { prefs: {} });
    assert.equal((await two.origin.call('GET', '/_svc-user/id')).json.id, two.id);
    assert.deepEqual(await ok('GET', '/_svc-user/prefs'), { prefs: { theme: 'light' } });
    await ok('PUT', '/_svc-user/prefs', { patch: { theme: null } });
  });

  test('a person changes their own name and password, and nothing of others', async () => {
    const [me, other] = [await joinWithPassword(gateway, 'Pat'), await join(gateway, 'Quin')];
    const renamed = await me.origin.call('PATCH', '/svc/_people/me', { body: { name: 'Patricia' } });
    assert.equal(renamed.json.name, 'Patricia', renamed.text);
    for (const body of [{ role: 'owner' }, { disabled: false }, { email: 'x@example.org' }]) {
      const refused = await me.origin.call('PATCH', '/svc/_people/me', { body });
      assert.deepEqual([refused.status, refused.json.error.path], [403, Object.keys(body)[0]]);
    }
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['GET', '/sessions'],
      ['DELETE', '/sessions'],
    ] as const)
      assert.equal(
        await statusOf(me.origin, method, `/svc/_people/${other.id}${path}`, method === 'PATCH' ? {} : undefined),
        403,
      );

    const elsewhere = sessionOf(gateway, consoleHost(gateway), await enterPassword(gateway, 'pat@example.org'));
    const next = `${PASSWORD} 2`;
    const wrong = await me.origin.call('PUT', '/svc/_auth/password', { body: { password: next, current: 'wrong' } });
    assert.deepEqual([wrong.status, wrong.json.error.path], [403, 'current']);
    assert.equal(await statusOf(me.origin, 'PUT', '/svc/_auth/password', { password: next, current: PASSWORD }), 200);
    assert.equal((await enterPassword(gateway, 'pat@example.org')).status, 401);
    assert.equal((await enterPassword(gateway, 'pat@example.org', next)).status, 200);
    assert.deepEqual(
      [await statusOf(me.origin, 'GET', '/svc/_people/me'), await statusOf(elsewhere, 'GET', '/svc/_people/me')],
      [200, 401],
    );
  });

  test('sessions are listed and ended, by their person and by owners, and end with the account', async () => {
    await upload('live');
    const me = await joinWithPassword(gateway, 'Sam', { grants: [{ app: 'live', role: 'editor' }] });
    const second = sessionOf(gateway, consoleHost(gateway), await enterPassword(gateway, 'sam@example.org'));
    const page = await enter(gateway, second, { app: 'live' });
    const sessions = (await me.origin.call('GET', '/svc/_people/me/sessions')).json;
    assert.equal(sessions.length, 2);
    const other = sessions.find(({ current }: { current: boolean }) => !current);
    assert.ok(!second.cookie.includes(`${other.id}/`), 'the id that is shown is no cookie');
    assert.equal(await statusOf(me.origin, 'DELETE', `/svc/_people/me/sessions/${other.id}`), 200);
    assert.deepEqual([await statusOf(second, 'GET', '/svc/_people/me'), (await read(page, 'live')).status], [401, 401]);
    assert.equal(await statusOf(me.origin, 'GET', '/svc/_people/me'), 200);

    const disabled = await ok('PATCH', `/svc/_people/${me.id}`, { disabled: true });
    assert.equal(disabled.disabled, true);
    assert.equal(await statusOf(me.origin, 'GET', '/svc/_people/me'), 401);
    assert.equal((await enterPassword(gateway, 'sam@example.org')).status, 401);
    await ok('PATCH', `/svc/_people/${me.id}`, { disabled: false });
    assert.equal(await statusOf(me.origin, 'GET', '/svc/_people/me'), 401);
    const third = sessionOf(gateway, consoleHost(gateway), await enterPassword(gateway, 'sam@example.org'));
    assert.equal((await read(third, 'live')).status, 200);
    assert.equal((await third.call('DELETE', '/svc/_session')).status, 200);
    assert.equal((await read(third, 'live')).status, 401);

    const last = sessionOf(gateway, consoleHost(gateway), await enterPassword(gateway, 'sam@example.org'));
    await ok('DELETE', `/svc/_people/${me.id}`);
    assert.equal(await statusOf(last, 'GET', '/svc/_people/me'), 401);
    assert.deepEqual(await ok('GET', '/svc/_apps/live/shares'), []);
    assert.equal((await gateway.call('GET', `/svc/_people/${me.id}`)).json.error.code, 'UNKNOWN_PERSON');
  });

  test('a link of an owner signs a person in who lost their password, once, and signs others out', async () => {
    const lost = await joinWithPassword(gateway, 'Tia');
    const { url } = await ok('POST', `/svc/_people/${lost.id}/link`, {});
    const next = `${PASSWORD} again`;
    const body = { code: codeOf(url), password: next };
    const shown = await visitor(gateway).call('POST', '/svc/_auth/invitation', { body });
    assert.equal(shown.json.person, 'Tia');
    const back = await visitor(gateway).call('POST', '/svc/_auth/join', { body });
    assert.equal(back.json.person.id, lost.id, back.text);
    assert.equal(await statusOf(lost.origin, 'GET', '/svc/_people/me'), 401);
    assert.equal((await enterPassword(gateway, 'tia@example.org', next)).status, 200);
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/join', { body })).status, 404);
  });

  test('who is signed in takes an invitation as themselves', async () => {
    await upload('more');
    const me = await join(gateway, 'Uma');
    const { url } = await ok('POST', '/svc/_invitations', {
      role: 'author',
      grants: [{ app: 'more', role: 'editor' }],
    });
    const taken = await me.origin.call('POST', '/svc/_auth/join', { body: { code: codeOf(url) } });
    assert.deepEqual([taken.json.person?.id, taken.json.person?.role], [me.id, 'author'], taken.text);
    assert.equal((await write(me.origin, 'more')).status, 200);
    assert.equal((await ok('GET', '/svc/_apps/more/shares')).length, 1);
  });

  test('pages of other sites sign nobody in, and nobody signs in at an app', async () => {
    const body = { email: 'ada@example.org', password: PASSWORD };
    const foreign = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/password', { body, headers: foreign })).status, 403);
    assert.equal((await gateway.call('POST', '/svc/_auth/password', { body, token: null })).status, 403);
    const host = `notes.${consoleHost(gateway)}`;
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/password', { body, headers: { host } })).status, 403);
  });

  test('signing in with a password gives the browser another session than somebody put into it', async () => {
    const [victim, mallory] = [await joinWithPassword(gateway, 'Viola'), await join(gateway, 'Mildred')];
    const body = { email: 'viola@example.org', password: PASSWORD };
    const entered = await mallory.origin.call('POST', '/svc/_auth/password', { body });
    const after = sessionOf(gateway, consoleHost(gateway), entered);
    for (const old of [victim.origin, mallory.origin]) assert.notEqual(after.cookie, old.cookie);
    assert.equal((await after.call('GET', '/svc/_people/me')).json.id, victim.id);
    assert.equal((await mallory.origin.call('GET', '/svc/_people/me')).status, 401);
    await ok('PATCH', `/svc/_people/${victim.id}`, { disabled: true });
    const disabled = await enterPassword(gateway, 'viola@example.org');
    assert.deepEqual(disabled.json.error, (await enterPassword(gateway, 'none@example.org')).json.error);
  });

  test('an app that is removed for good takes its shares along', async () => {
    await upload('gone');
    const me = await join(gateway, 'Wes', { grants: [{ app: 'gone', role: 'editor' }] });
    await ok('DELETE', '/svc/_apps/gone?purge=1');
    await upload('gone');
    assert.deepEqual(await ok('GET', '/svc/_apps/gone/shares'), []);
    assert.equal((await read(me.origin, 'gone')).status, 403);
  });

  test('whoever guesses has to wait, the person as well', async () => {
    await joinWithPassword(gateway, 'Xia');
    const guess = (password: string) => enterPassword(gateway, 'xia@example.org', password);
    for (let tries = 0; tries < LIMITS.attemptsOfPerson; tries++)
      assert.equal((await guess(`wrong ${tries}`)).status, 401);
    const right = await guess(PASSWORD);
    assert.deepEqual([right.status, right.json.error.code], [429, 'RATE_LIMITED']);
    assert.ok(Number(right.headers['retry-after']) > 0);
  });

  test('people, their sessions and shares outlive a restart', async () => {
    await upload('kept');
    const me = await join(gateway, 'Yan', { grants: [{ app: 'kept', role: 'editor' }] });
    await gateway.stop();
    await gateway.start(new URL(gateway.url).port);
    assert.equal((await write(me.origin, 'kept')).status, 200);
    assert.equal((await me.origin.call('GET', '/svc/_people/me')).json.name, 'Yan');
  });
});
