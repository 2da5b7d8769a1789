import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { failure, startGateway, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import { checkSessions } from './stale-sessions.ts';

const NOW = Date.parse('2026-06-01T00:00:00Z');
const OLD = NOW - LIMITS.sessionStaleMs - 86_400_000;

const RECORD = JSON.stringify({ createdAt: '2026-01-01T00:00:00Z', base: 'a'.repeat(40), apps: {} });

test('damaged sessions are named, with and without a gateway', async (t) => {
  const folder = temporaryFolder(t);
  const sessions = join(folder, 'code-store/worktrees/sessions');
  for (const [id, record] of [
    ['cut', RECORD.slice(0, 20)],
    ['whole', RECORD],
  ] as const) {
    mkdirSync(join(sessions, id, 'apps'), { recursive: true });
    writeFileSync(join(sessions, id, 'session.json'), record);
  }
  mkdirSync(join(sessions, 'empty'));
  const rows = [
    { sessionId: 'cut', touchedAt: Date.now(), damaged: 'It is.' },
    { sessionId: 'empty', touchedAt: Date.now(), damaged: 'It is.' },
    { sessionId: 'whole', touchedAt: Date.now() },
  ];
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': { json: rows } });
  for (const runs of [false, true]) {
    if (runs) runsOn(folder, url);
    const [damaged, open] = await checkSessions(folder);
    assert.equal(damaged?.state, 'problem');
    assert.match(damaged?.finding ?? '', /: cut, empty$/);
    assert.deepEqual([open?.state, open?.finding], ['ok', '3 open']);
  }
});

test('sessions that nobody touched for 30 days are named, the oldest first, as the gateway that runs has them', async (t) => {
  const folder = temporaryFolder(t);
  const rows = [
    { sessionId: 'fresh', touchedAt: NOW - 1000 },
    { sessionId: 'old', touchedAt: OLD },
    { sessionId: 'older', touchedAt: OLD - 86_400_000 },
  ];
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': { json: rows } });
  runsOn(folder, url);
  const [check] = await checkSessions(folder, NOW);
  assert.equal(check?.state, 'warning');
  assert.match(check?.finding ?? '', /^3 open, untouched for 30 days: older \(.*\), old \(/);
  assert.match(check?.fix ?? '', /svc sessions rm/);
  assert.doesNotMatch(check?.finding ?? '', /fresh/);
});

test('without a gateway they are read from the folder, and left there', async (t) => {
  const folder = temporaryFolder(t);
  assert.deepEqual(await checkSessions(folder, NOW), [], 'no git store');
  const sessions = join(folder, 'code-store/worktrees/sessions');
  for (const [id, at] of [
    ['forgotten', OLD],
    ['fresh', NOW],
  ] as const) {
    mkdirSync(join(sessions, id, 'apps/notes'), { recursive: true });
    writeFileSync(join(sessions, id, 'session.json'), RECORD);
    for (const path of ['apps/notes', 'apps', 'session.json'])
      utimesSync(join(sessions, id, path), at / 1000, at / 1000);
  }
  const [check] = await checkSessions(folder, NOW);
  assert.match(check?.finding ?? '', /^2 open, untouched for 30 days: forgotten \(/);
  assert.deepEqual(readdirSync(sessions).sort(), ['forgotten', 'fresh']);
});

test('a gateway with the other store, or one that does not answer, has no such finding', async (t) => {
  const folder = temporaryFolder(t);
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': failure(409, 'NO_GIT_STORE', 'No drafts.') });
  runsOn(folder, url);
  assert.deepEqual(await checkSessions(folder, NOW), []);
  runsOn(folder, 'http://127.0.0.1:1');
  assert.deepEqual(await checkSessions(folder, NOW), []);
});

function runsOn(folder: string, url: string): void {
  mkdirSync(join(folder, 'run'), { recursive: true });
  writeFileSync(join(folder, 'run/daemon.json'), JSON.stringify({ pid: 7, url, startedAt: 0, version: '0' }));
  writeFileSync(join(folder, 'token.bin'), TOKEN);
}
