/** The audit log: who signed in, made tokens, set secrets, published and removed (specification, "Audit log"). */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join as pathOf } from 'node:path';
import { test } from 'node:test';
import { AUDIT_ACTIONS } from '../protocol/audit.ts';
import type { AuditEntry } from '../protocol/routes/operations/audit-rows.ts';
import { rotateToken } from '../storage/token.ts';
import { appOf } from '../testing/apps.ts';
import { svc } from '../testing/command-line.ts';
import { connectProgram, postForm } from '../testing/connections.ts';
import { onEachStore } from '../testing/edges.ts';
import { signIn } from '../testing/origins.ts';
import { addPasskey, Device, enterPasskey } from '../testing/passkeys.ts';
import { enterPassword, guestCodeOf, join, joinWithPassword, openLink, PASSWORD, visitor } from '../testing/people.ts';
import { eventually, LIMIT_MS } from '../testing/waiting.ts';

const SECRET = 'sk-live-0123456789';
const notes = (version: string) => appOf('notes', { manifest: { version }, queries: { all: '() => []' } });

onEachStore({}, (gateway, store) => {
  const ok = async (method: string, path: string, body?: unknown, token?: string) => {
    const answer = await gateway.call(method, path, { body, ...(token !== undefined && { token }) });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const entries = async (query = ''): Promise<AuditEntry[]> => ok('GET', `/svc/_audit${query}`);
  /** What was recorded while it worked, the oldest first. */
  const recorded = async (work: () => Promise<unknown>) => {
    const [last] = await entries('?limit=1');
    await work();
    const all = await entries('?limit=50');
    return all.filter(({ id }) => id > (last?.id ?? 0)).reverse();
  };
  const brief = (all: AuditEntry[]) =>
    all.map(({ actor, action, target, detail }) => [actor.kind, action, target, detail]);

  test('versions that are stored and go live, and what becomes of an app, name the app and the version', async () => {
    const ids: string[] = [];
    const upload = async (version: string, query = '') => {
      const answer = await gateway.upload('notes', notes(version), query);
      assert.equal(answer.status, 201, answer.text);
      ids.push(answer.json.versionId);
    };
    const all = await recorded(async () => {
      for (const version of ['1.0.0', '2.0.0']) await upload(version);
      await upload('3.0.0', '?activate=0');
      await ok('POST', '/svc/_apps/notes/rollback', {});
      await ok('POST', '/svc/_apps/notes/activate', { versionId: ids[2] });
      await ok('DELETE', `/svc/_apps/notes/versions/${encodeURIComponent(ids[1] ?? '')}`);
    });
    const [first, second, third] = ids;
    assert.deepEqual(brief(all), [
      ['admin', 'app.published', 'notes', { version: first }],
      ['admin', 'app.published', 'notes', { version: second }],
      ['admin', 'app.published', 'notes', { version: third, live: false }],
      ['admin', 'app.published', 'notes', { version: first }],
      ['admin', 'app.published', 'notes', { version: third }],
      ['admin', 'version.deleted', 'notes', { version: second }],
    ]);
  });

  test('what is published from a workspace or without an editor is there, what is only staged is not', async () => {
    if (store === 'tarball') return;
    const all = await recorded(async () => {
      await ok('POST', '/svc/_apps', { id: 'blank', sessionId: (await ok('POST', '/svc/_sessions', {})).sessionId });
      await ok('POST', '/svc/_apps', { id: 'plain', publish: true });
      await ok('POST', '/svc/_apps/plain/meta', { name: 'Plain', publish: true });
      await ok('POST', '/svc/_automations', {
        app: 'plain',
        id: 'tick',
        manifest: { name: 'Tick', prompt: 'Ticks.', triggers: [] },
        publish: true,
      });
      const { sessionId } = await ok('POST', '/svc/_sessions', {});
      const file = `/svc/_sessions/${sessionId}/apps/plain/files/note.txt`;
      assert.ok((await gateway.call('PUT', file, { body: Buffer.from('a note') })).status < 300);
      await ok('POST', `/svc/_sessions/${sessionId}/publish`, { app: 'plain' });
      await ok('POST', '/svc/_apps/plain/duplicate', { id: 'twin' });
    });
    assert.deepEqual(
      brief(all),
      [1, 2, 3, 4]
        .map((n) => ['admin', 'app.published', 'plain', { version: `plain/v${n}` }])
        .concat([['admin', 'app.published', 'twin', { version: 'twin/v1' }]]),
    );
  });

  test('tokens and secrets are named, their values are nowhere, and a program goes by its name', async () => {
    const all = await recorded(async () => {
      const made = await ok('POST', '/svc/_tokens', { name: 'deployer', apps: ['notes'], tools: 'all' });
      await ok('PUT', '/svc/_apps/notes/secrets/KEY', { value: SECRET }, made.token);
      await ok('DELETE', '/svc/_apps/notes/secrets/KEY', undefined, made.token);
      await ok('DELETE', `/svc/_tokens/${made.id}`);
    });
    const [made, set, removed, revoked] = all;
    assert.deepEqual(
      all.map(({ actor, action }) => [actor.kind, actor.name, action]),
      [
        ['admin', undefined, 'token.made'],
        ['token', 'deployer', 'secret.set'],
        ['token', 'deployer', 'secret.removed'],
        ['admin', undefined, 'token.revoked'],
      ],
    );
    assert.deepEqual(made?.detail, { name: 'deployer', tools: 'all', apps: ['notes'], expiresAt: null });
    assert.deepEqual([set?.target, set?.detail, removed?.detail], ['notes', { name: 'KEY' }, { name: 'KEY' }]);
    assert.equal(revoked?.target, made?.target);
    for (const file of ['identity.sqlite', 'identity.sqlite-wal'])
      assert.ok(!readFileSync(pathOf(gateway.dataDir, file)).includes(SECRET), file);
  });

  test('sign-ins, their failures, links, and the end of a sign-in are there', async () => {
    const wrong = { token: 'f'.repeat(64), headers: { host: `svc.localhost:${new URL(gateway.url).port}` } };
    const all = await recorded(async () => {
      await ok('POST', '/svc/_session/links', { open: 'notes' });
      await ok('PUT', '/svc/_session/length', { hours: 24 });
      assert.equal((await gateway.call('POST', '/svc/_session', { ...wrong, body: {} })).status, 401);
      const console = await signIn(gateway);
      assert.equal((await console.call('DELETE', '/svc/_session')).status, 200);
    });
    assert.deepEqual(brief(all), [
      ['admin', 'sign-in.link', 'notes', {}],
      ['admin', 'sign-in.length', null, { hours: 24 }],
      ['public', 'sign-in.refused', null, { address: '127.0.0.1' }],
      ['session', 'sign-in', null, { address: '127.0.0.1', with: 'token' }],
      ['session', 'sign-out', null, {}],
    ]);
  });

  test('people, groups, invitations and shares are there, with who did it, and no password and no code', async () => {
    let code = '';
    const all = await recorded(async () => {
      const ada = await joinWithPassword(gateway, 'Ada', { grants: [{ app: 'notes', role: 'manager' }] });
      const { id: group } = await ok('POST', '/svc/_groups', { name: 'Readers', members: [ada.id] });
      const shared = { body: { group, role: 'viewer' } };
      const { id: share } = (await ada.origin.call('POST', '/svc/_apps/notes/shares', shared)).json;
      await ok('DELETE', `/svc/_apps/notes/shares/${share}`);
      const link = await ok('POST', '/svc/_apps/notes/shares', { link: true, role: 'viewer' });
      code = guestCodeOf(link.url);
      for (let count = 0; count < 2; count++) await openLink(gateway, link.url);
      await ok('DELETE', `/svc/_groups/${group}`);
      const { id: invitation } = await ok('POST', '/svc/_invitations', {});
      await ok('DELETE', `/svc/_invitations/${invitation}`);
      await enterPassword(gateway, 'ada@example.org');
      const next = { password: `${PASSWORD} 2`, current: PASSWORD };
      await ada.origin.call('PUT', '/svc/_auth/password', { body: next });
      await enterPassword(gateway, 'ada@example.org', next.password);
      const device = new Device(1);
      const { id: passkey } = (await addPasskey(ada.origin, device)).json;
      await enterPasskey(visitor(gateway), device);
      await enterPasskey(visitor(gateway), device, { counter: 1 });
      await ada.origin.call('DELETE', `/svc/_people/me/passkeys/${passkey}`);
      await ada.origin.call('DELETE', '/svc/_people/me/sessions');
      await ok('PATCH', `/svc/_people/${ada.id}`, { role: 'author' });
      await ok('DELETE', `/svc/_people/${ada.id}`);
    });
    assert.deepEqual(
      all.map(({ actor, action, target }) => `${actor.name ?? actor.kind} ${action} ${target?.replace(/_\w+$/, '')}`),
      [
        ...['admin invitation.made i', 'Ada person.joined p', 'Ada sign-in p', 'admin group.changed g'],
        ...['Ada share.given notes', 'admin share.ended notes', 'admin share.given notes', 'public link.opened notes'],
        ...['admin group.removed g', 'admin invitation.made i'],
        ...[
          'admin invitation.withdrawn i',
          'Ada sign-in p',
          'Ada password.set p',
          'Ada sign-in p',
          'Ada passkey.added p',
          'Ada sign-in p',
          'Ada passkey.refused p',
          'Ada passkey.removed p',
          'Ada session.ended p',
        ],
        ...['admin person.changed p', 'admin person.removed p'],
      ],
    );
    for (const secret of [PASSWORD, code]) assert.ok(!JSON.stringify(all).includes(secret));
  });

  test('programs that are connected and disconnected are there, with who connected them, and no token', async () => {
    const given: string[] = [];
    const all = await recorded(async () => {
      const bea = await join(gateway, 'Bea', { grants: [{ app: 'notes', role: 'viewer' }] });
      const one = await connectProgram(gateway, bea.origin, '/svc/notes/_mcp');
      const [{ id }] = (await bea.origin.call('GET', '/svc/_people/me/connections')).json;
      await bea.origin.call('DELETE', `/svc/_people/me/connections/${id}`);
      const two = await connectProgram(gateway, bea.origin, '/svc/notes/_mcp');
      await postForm(gateway, '/svc/_oauth/token', { grant_type: 'authorization_code', ...two.form });
      for (const { code, access, refresh } of [one, two]) given.push(code, access, refresh);
      await ok('DELETE', `/svc/_people/${bea.id}`);
    });
    assert.deepEqual(
      all
        .filter(({ action }) => action.startsWith('connection.'))
        .map(({ actor, action }) => `${actor.name} ${action}`),
      ['Bea connection.made', 'Bea connection.ended', 'Bea connection.made', 'Bea connection.reused'],
    );
    for (const secret of given) assert.ok(!JSON.stringify(all).includes(secret));
  });

  test('removals are there, survive a kill, and are read a page at a time', async () => {
    await recorded(async () => {
      await ok('DELETE', '/svc/_apps/notes');
      const [{ id }] = await ok('GET', '/svc/_trash');
      await ok('POST', `/svc/_trash/${id}/restore`);
      await ok('DELETE', '/svc/_apps/notes');
      const [{ id: again }] = await ok('GET', '/svc/_trash');
      await ok('DELETE', `/svc/_trash/${again}`);
    });
    await gateway.kill();
    await gateway.start();
    const all = await entries();
    assert.deepEqual(
      all.slice(0, 4).map(({ action }) => action),
      ['app.deleted', 'app.removed', 'app.restored', 'app.removed'],
    );
    assert.deepEqual(await entries(`?limit=2&before=${all[1]?.id}`), all.slice(2, 4));
    for (const before of ['x', '-1', '99999999999999999'])
      assert.equal((await gateway.call('GET', `/svc/_audit?before=${before}`)).json.error.path, 'before');
  });

  test('the administrator alone reads it; svc audit draws it', async () => {
    const { token } = await ok('POST', '/svc/_tokens', { name: 'curious', tools: 'all' });
    assert.equal((await gateway.call('GET', '/svc/_audit', { token })).status, 403);
    const { stdout, code, stderr } = await svc(['audit', '-n', '3', '--url', gateway.url, '--token', gateway.token]);
    assert.equal(code, 0, stderr);
    assert.match(
      stdout,
      /^WHEN +WHO +WHAT +TARGET +DETAIL\n\S.* administrator +token\.made +tok_\w+ +name curious, tools all$/m,
    );
    assert.equal(stdout.trim().split('\n').length, 4);
  });

  test('a token that is replaced on the machine is there, and by now every action is', async () => {
    gateway.token = await rotateToken(pathOf(gateway.dataDir, 'token.bin'));
    const isThere = async () => {
      const answer = await gateway.call('GET', '/svc/_audit?limit=1');
      return answer.status === 200 && answer.json[0].action === 'token.rotated';
    };
    assert.ok(await eventually(LIMIT_MS, isThere));
    const [{ actor } = {} as AuditEntry] = await entries('?limit=1');
    assert.deepEqual(actor, { kind: 'machine' });
    const seen = new Set((await entries('?limit=500')).map(({ action }) => action));
    // Those need a provider or a cluster: `providers.e2e.test.ts`, `cluster-operations.e2e.test.ts`.
    const isHere = (action: string) => !/^(?:identity|node)\./.test(action);
    assert.deepEqual([...seen].sort(), Object.keys(AUDIT_ACTIONS).filter(isHere).sort());
  });
});
