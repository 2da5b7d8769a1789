// The commands about people: who is there, invitations, groups and shares, in words and as JSON.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { svc as run } from '../testing/command-line.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { codeOf, join, openLink, PASSWORD, visitor } from '../testing/people.ts';

describe('commands about people', () => {
  const gateway = gatewayOfSuite({ apps: ['todos'] });
  const svc = async (...args: string[]) => {
    const { code, stdout, stderr } = await run([...args, '--url', gateway.url, '--token', gateway.token]);
    return { code, stdout, stderr };
  };
  const works = async (...args: string[]) => {
    const { code, stdout, stderr } = await svc(...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const json = async (...args: string[]) => JSON.parse(await works(...args, '--json'));

  test('an invitation is made, listed, taken and withdrawn', async () => {
    assert.match((await svc('people')).stderr, /There are no people yet/);
    const twice = await svc('invite', '--app', 'todos:editor', '--app', 'todos');
    assert.match(twice.stderr, /BAD_REQUEST: The app "todos" is named twice/);
    const url = (await works('invite', '--name', 'Ada', '--app', 'todos:editor')).trim();
    const invited = await json(
      'invite',
      '--email',
      'bob@example.org',
      '--role',
      'author',
      '--expires',
      '30d',
      '--uses',
      '2',
    );
    assert.deepEqual([invited.role, invited.uses, invited.email], ['author', 2, 'bob@example.org']);
    assert.match(await works('invite', 'ls'), /Ada +member +todos:editor +1 +in 7 d/);
    const body = { code: codeOf(url), email: 'ada@example.org', password: PASSWORD };
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/join', { body })).status, 200);
    assert.match(await works('people'), /^p_\w+ +Ada +ada@example\.org +member +just now$/m);
    await works('invite', 'rm', invited.id);
    assert.deepEqual(await json('invite', 'ls'), []);
  });

  test('people are named by name, address and id; their role, sessions and account change', async () => {
    const [{ id }] = await json('people');
    assert.equal((await json('people', 'role', 'ada', 'author')).role, 'author');
    const claimed = await svc('people', 'sessions', 'ADA@example.org');
    assert.match(claimed.stderr, /Nobody has checked that "ADA@example\.org" is .*; use the id\.\n +p_\w+ Ada/);
    assert.match(await works('people', 'sessions', 'Ada'), /^p\w+ .*127\.0\.0\.1 +just now$/m);
    assert.equal((await json('people', 'signout', id)).ended, 1);
    assert.equal((await json('people', 'disable', id)).disabled, true);
    assert.match(await works('people'), /disabled/);
    assert.equal((await json('people', 'enable', id)).disabled, false);
    assert.match(await works('people', 'link', 'Ada'), /#invitation=/);
    await join(gateway, 'Ada2');
    const twin = (await json('people')).find(({ name }: { name: string }) => name === 'Ada2');
    await gateway.call('PATCH', `/svc/_people/${twin.id}`, { body: { name: 'Ada' } });
    const both = await svc('people', 'role', 'Ada', 'member');
    assert.equal(both.code, 2);
    assert.match(both.stderr, /Several people are called "Ada"; use the id\.\n(?:.*\n)*.*ada@example\.org/);
    assert.match((await svc('people', 'rm', twin.id)).stderr, /--yes/);
    await works('people', 'rm', twin.id, '--yes');
    assert.match((await svc('people', 'role', 'Ada', 'king')).stderr, /owner, author, member; not "king"/);
    assert.match((await svc('people', 'role', 'nobody', 'member')).stderr, /There is no person "nobody"/);
  });

  test('an app is shared with people, groups, everyone and addresses, and with nobody else', async () => {
    await works('groups', 'new', 'family');
    await works('groups', 'add', 'family', 'Ada');
    assert.match(await works('groups'), /family +1$/m);
    await works('share', 'todos', 'family', '--role', 'manager', '--expires', '30d');
    await works('share', 'todos', 'everyone');
    const { url } = await json('share', 'todos', 'new@example.org', '--role', 'editor');
    assert.ok(codeOf(url).length > 40);
    const shares = await works('shares', 'todos');
    assert.match(shares, /^s_\w+ +Ada +editor +never$/m);
    assert.match(shares, /^s_\w+ +family +group +manager +in 30 d$/m);
    assert.match(shares, /^s_\w+ +everyone +everyone +viewer +never$/m);
    assert.match(shares, /^i_\w+ +new@example\.org +invitation +editor +in 7 d$/m);
    const link = (await works('share', 'todos', '--link', '--role', 'editor', '--expires', '7d')).trim();
    await openLink(gateway, link);
    const { id } = await json('share', 'todos', '--link');
    assert.match(
      await works('shares', 'todos'),
      new RegExp(
        `^s_\\w+ +whoever has the link +link +editor +in 7 d +just now\\n${id} +whoever has the link +link +viewer +never`,
        'm',
      ),
    );
    assert.match((await svc('unshare', 'todos', 'whoever has the link')).stderr, /use the id.\n +s_\w+ link/);
    for (const share of (await json('shares', 'todos')).filter(({ with: to }: { with: string }) => to === 'link'))
      assert.match(await works('unshare', 'todos', share.id), /The link to "todos" has ended/);
    assert.equal((await svc('share', 'todos', '--link', '--role', 'manager')).code, 1);
    for (const who of ['Ada', 'family', 'everyone', 'new@example.org']) await works('unshare', 'todos', who);
    assert.deepEqual(await json('shares', 'todos'), []);
    const [refused, none] = [await svc('share', 'todos', 'stranger'), await svc('unshare', 'todos', 'Ada')];
    assert.match(refused.stderr, /There is no person and no group "stranger"[\s\S]*name their e-mail address/);
    assert.match(none.stderr, /"todos" is not shared with "Ada"/);
    await works('groups', 'drop', 'family', 'Ada');
    await works('groups', 'rm', 'family', '--yes');
    assert.deepEqual(await json('groups'), []);
  });
});
