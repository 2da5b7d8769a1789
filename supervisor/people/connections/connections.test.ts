import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Known } from '../../http/access/person.ts';
import { Records } from '../records.ts';
import { Connections } from './connections.ts';

const REDIRECT = 'https://example.org/cb';
const VERIFIER = 'v'.repeat(43);
const PATH = '/svc/todos/_mcp';

async function setUp() {
  const clock = { now: 1000 };
  const db = { exec: async () => {}, batch: async () => [] } as unknown as DbClient;
  const records = await Records.open({ db, file: '/none', log: { warn: assert.fail } as never });
  const known: Known = { person: { id: 'p_1', name: 'Ada', role: 'owner' }, grants: [] };
  const connections = new Connections({ records, known: () => known, now: () => clock.now });
  const { id: client } = await connections.clients.register({ redirect_uris: [REDIRECT] });
  const agree = () =>
    connections.agree({
      ...{ person: 'p_1', client, name: 'Program', path: PATH, app: 'todos', role: 'viewer', redirect: REDIRECT },
      challenge: hash('sha256', VERIFIER, 'base64url'),
    });
  const exchange = (code: string) =>
    connections.exchange({ code, client, redirect: REDIRECT, verifier: VERIFIER, path: undefined });
  const refresh = (token: string) => connections.refresh({ refresh: token, client, path: undefined });
  const isGood = (token: string) => connections.caller(token, PATH)?.caller.ended === false;
  return { clock, records, connections, client, agree, exchange, refresh, isGood };
}

test('a code is good for a minute, an access token for an hour, a refresh token for 30 days', async () => {
  const { clock, agree, exchange, refresh, isGood, connections } = await setUp();
  const late = agree();
  clock.now += LIMITS.codeMs;
  await assert.rejects(exchange(late), { code: 'invalid_grant' });
  const first = await exchange(agree());
  const caller = connections.caller(first.access, PATH)?.caller;
  clock.now += LIMITS.accessTokenMs - 1;
  assert.ok(isGood(first.access));
  clock.now += 1;
  assert.deepEqual([isGood(first.access), caller?.ended], [false, true]);
  const second = await refresh(first.refresh);
  assert.ok(isGood(second.access));
  clock.now += LIMITS.refreshTokenMs;
  await assert.rejects(refresh(second.refresh), { code: 'invalid_grant' });
  assert.deepEqual(connections.of('p_1'), []);
});

test('of a refresh token that was replaced a moment ago comes the same next one; later it ends everything', async () => {
  const { clock, agree, exchange, refresh, isGood } = await setUp();
  const first = await exchange(agree());
  const second = await refresh(first.refresh);
  clock.now += LIMITS.refreshAgainMs - 1;
  const again = await refresh(first.refresh);
  assert.equal(again.refresh, second.refresh);
  assert.ok(isGood(second.access) && isGood(again.access));
  clock.now += 1;
  await assert.rejects(refresh(first.refresh), { code: 'invalid_grant', message: /used before/ });
  assert.ok(!isGood(second.access) && !isGood(again.access));
  await assert.rejects(refresh(second.refresh), { code: 'invalid_grant' });
});

test('tokens are not kept, and of a person the programs used last stay', async () => {
  const { clock, records, agree, exchange, isGood } = await setUp();
  const given = [];
  for (let n = 0; n <= LIMITS.personConnections; n++) {
    clock.now += 1;
    given.push(await exchange(agree()));
  }
  assert.equal(records.connection.size, LIMITS.personConnections);
  assert.deepEqual([isGood(given[0]?.access ?? ''), isGood(given[1]?.access ?? '')], [false, true]);
  const stored = JSON.stringify([...records.connection.values()]);
  for (const { access, refresh } of given)
    for (const secret of [access, access.slice(5), ...refresh.slice(5).split('.')]) assert.ok(!stored.includes(secret));
});

test('programs that nobody connects are forgotten, and make room', async () => {
  const { clock, records, connections, client, agree, exchange } = await setUp();
  const unused = await connections.clients.register({ redirect_uris: [REDIRECT] });
  await exchange(agree());
  clock.now += LIMITS.clientUnusedMs;
  assert.deepEqual(
    [connections.clients.find(unused.id), connections.clients.find(client)?.connected],
    [undefined, true],
  );
  const more = [];
  for (let n = 0; n < LIMITS.connectionClients; n++)
    more.push(await connections.clients.register({ redirect_uris: [REDIRECT] }));
  assert.equal(records.client.size, LIMITS.connectionClients);
  assert.deepEqual(
    [connections.clients.find(more[0]?.id ?? ''), connections.clients.find(client)?.connected],
    [undefined, true],
  );
  clock.now += LIMITS.clientKeptMs;
  assert.equal(connections.clients.find(client), undefined);
});
