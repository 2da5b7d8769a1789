/** What is remembered of signed cookies: never more than their signature. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { cookiesFor, readCookie, type Session, type SignedCookie } from './cookie.ts';
import { type Place, Places } from './places.ts';

const KEY = Buffer.alloc(32, 7);
const OWNER = { app: 'todos' };
const places = new Places({ host: '127.0.0.1', pageOrigins: 'auto', appDomain: null, allowedHosts: [] } as never);
const todos = places.of('todos.svc.localhost:8787');
const notes = places.of('notes.svc.localhost:8787');
const otherPort = places.of('todos.svc.localhost:9000');

function setUp() {
  const known = new Map<string, SignedCookie>();
  const app = { registeredAt: 1 };
  const [set = ''] = cookiesFor(todos, { id: 'a'.repeat(16), expiresAt: 2000, owner: OWNER }, true, KEY, () => 1, 1000);
  const [cookie = ''] = set.split(';');
  const read = (cookies: string, place: Place = todos, now = 1000, key = KEY) =>
    sessionIn(readCookie(cookies, place, key, known, () => app.registeredAt, now));
  return { known, app, cookie, read };
}

function sessionIn(found: SignedCookie | 'two' | null): Session | 'two' | null {
  return found === null || found === 'two' ? found : found.session;
}

test('a cookie that was seen is the same session, until it ends', () => {
  const { cookie, read } = setUp();
  const session = read(cookie);
  assert.deepEqual(session, { id: 'a'.repeat(16), expiresAt: 2000, owner: OWNER });
  assert.equal(read(cookie), session);
  assert.equal(read(cookie, todos, 2000), null);
});

test('a cookie that was seen is none at another host, and none of a later app with the id', () => {
  const { app, cookie, read } = setUp();
  assert.notEqual(read(cookie), null);
  assert.deepEqual([read(cookie, notes), read(cookie, otherPort)], [null, null]);
  app.registeredAt = 2;
  assert.equal(read(cookie), null);
});

test('what was not signed, and what is there twice, is never remembered', () => {
  const { known, cookie, read } = setUp();
  const forged = cookie.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'));
  for (let count = 0; count < 2; count++) {
    assert.equal(read(forged), null);
    assert.equal(read(`${cookie}; ${cookie}`), 'two');
    assert.equal(read(cookie, notes), null);
  }
  assert.equal(known.size, 0);
});

test('long headers are checked each time, and many make room', () => {
  const { known, cookie, read } = setUp();
  assert.notEqual(read(`${cookie}; more=${'x'.repeat(LIMITS.signedCookieChars)}`), null);
  assert.equal(known.size, 0);
  for (let count = 0; count <= LIMITS.signedCookies; count++) read(`${cookie}; n=${count}`);
  assert.equal(known.size, 1);
});
