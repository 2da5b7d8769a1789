import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { resolveConfig, type Settings } from '../../config.ts';
import type { Apps } from '../../dispatch/apps.ts';
import type { Exchange } from '../../edge/edge.ts';
import { EMBEDDED, type Place } from './places.ts';
import { Visitors } from './visitors.ts';

const PAGE: Place = { ...EMBEDDED, kind: 'page', host: 'open.example.org', label: 'open' };

function setUp(settings: Settings = {}) {
  const config = resolveConfig('/data', { publicLimits: { reads: 3, writes: 1 } }, settings);
  const clock = { now: 1000 };
  const apps = standIn<Apps>({
    hasPublicPage: async (app) => app === 'open',
    mayHavePublicPage: (app) => app === 'open',
  });
  return { clock, visitors: new Visitors({ apps, config, now: () => clock.now }) };
}

function asking(headers: Record<string, string> = {}, remoteAddress = '203.0.113.9'): Exchange {
  return { method: 'POST', remoteAddress, header: (name: string) => headers[name] } as unknown as Exchange;
}

describe('the address of a visitor', () => {
  const from = (trustedProxies: string[], socket: string, forwarded?: string) =>
    setUp({ trustedProxies }).visitors.addressOf(
      asking(forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }, socket),
    );

  test('is that of the socket, with any header', () => {
    assert.equal(from([], '203.0.113.9', '10.0.0.1'), '203.0.113.9');
    assert.equal(from(['10.0.0.0/8'], '203.0.113.9', '10.0.0.1'), '203.0.113.9');
    assert.equal(from([], '::ffff:203.0.113.9'), '203.0.113.9');
  });

  test('is the last one from a trusted proxy that is not a trusted proxy itself', () => {
    const proxies = ['127.0.0.1', '10.0.0.0/8', 'fd00::/8'];
    for (const [socket, forwarded, wanted] of [
      ['127.0.0.1', '198.51.100.7', '198.51.100.7'],
      ['127.0.0.1', '1.1.1.1, 198.51.100.7', '198.51.100.7'],
      ['127.0.0.1', '1.1.1.1, 198.51.100.7, 10.1.2.3', '198.51.100.7'],
      ['::ffff:127.0.0.1', '1.1.1.1,198.51.100.7,fd00::5', '198.51.100.7'],
      ['127.0.0.1', '2001:db8::7', '2001:db8::7'],
      ['127.0.0.1', '[2001:db8::7]:4711', '2001:db8::7'],
      ['127.0.0.1', '198.51.100.7:4711', '198.51.100.7'],
      ['127.0.0.1', '10.0.0.1, 10.0.0.2', '10.0.0.1'],
      ['127.0.0.1', '198.51.100.7, unknown', '127.0.0.1'],
      ['127.0.0.1', '198.51.100.7, , 10.0.0.2', '10.0.0.2'],
      ['127.0.0.1', '', '127.0.0.1'],
      ['127.0.0.1', undefined, '127.0.0.1'],
    ] as const) {
      assert.equal(from(proxies, socket, forwarded), wanted, `${socket} ${forwarded}`);
    }
  });
});

describe('limits', () => {
  test('are for each address and use, and say when there is room again', () => {
    const { clock, visitors } = setUp();
    const refusal = { code: 'RATE_LIMITED', status: 429 };
    for (let n = 0; n < 3; n++) visitors.count('198.51.100.7', 'reads');
    clock.now += 20_500;
    assert.throws(
      () => visitors.count('198.51.100.7', 'reads'),
      (error: { headers: Record<string, string> } & Error) => {
        assert.deepEqual(error.headers, { 'retry-after': '40' });
        return true;
      },
    );
    visitors.count('198.51.100.7', 'writes');
    assert.throws(() => visitors.count('198.51.100.7', 'writes'), refusal);
    visitors.count('198.51.100.8', 'writes');
    clock.now = 1000 + LIMITS.visitorWindowMs - 1;
    assert.throws(() => visitors.count('198.51.100.7', 'reads'), refusal);
    clock.now++;
    visitors.count('198.51.100.7', 'reads');
  });

  test('are the same for all addresses of one IPv6 network', () => {
    const { visitors } = setUp();
    visitors.count('2001:db8:1:2::1', 'writes');
    assert.throws(() => visitors.count('2001:db8:1:2:ffff::9', 'writes'), { code: 'RATE_LIMITED' });
    visitors.count('2001:db8:1:3::1', 'writes');
  });

  test('of 0 refuse everybody', () => {
    const { visitors } = setUp({ publicLimits: { reads: 0, writes: 0 } });
    assert.throws(() => visitors.count('198.51.100.7', 'reads'), { code: 'RATE_LIMITED' });
  });

  test('remember so many addresses and no more, and forget those of a minute ago', () => {
    const { clock, visitors } = setUp();
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < LIMITS.visitorAddresses + 1000; n++) visitors.count(address(n), 'writes');
    assert.equal(visitors.size, LIMITS.visitorAddresses);
    assert.throws(() => visitors.count(address(1000), 'writes'), { code: 'RATE_LIMITED' });
    clock.now += LIMITS.visitorWindowMs;
    visitors.count('198.51.100.7', 'writes');
    assert.equal(visitors.size, 1);
  });
});

describe('a visitor', () => {
  test('presents no token, and comes to no draft and not to the console', () => {
    const { visitors } = setUp();
    const isVisitor = (place: Place, use: 'page' | 'tool', headers = {}) =>
      visitors.visitor(asking(headers), place, use, false) !== null;
    assert.ok(isVisitor(PAGE, 'page') && isVisitor(PAGE, 'tool'));
    assert.ok(isVisitor(PAGE, 'tool', { authorization: 'Basic eDp5' }));
    assert.ok(!isVisitor(PAGE, 'tool', { authorization: 'Bearer wrong' }));
    assert.ok(!isVisitor({ ...PAGE, label: 's1--open.draft' }, 'tool'));
    assert.ok(!isVisitor({ ...PAGE, kind: 'console' }, 'page') && isVisitor({ ...PAGE, kind: 'console' }, 'tool'));
    assert.ok(!isVisitor(EMBEDDED, 'tool'));
  });

  test('opens the files of a public app, as it is live, at its own origin', async () => {
    const { visitors } = setUp();
    assert.equal(await visitors.mayOpen({ id: 'open', '*': '/a.js' }, PAGE), true);
    assert.equal(await visitors.mayOpen({ id: 'open', '*': '/a.js' }, { ...PAGE, kind: 'shared', label: '' }), true);
    assert.equal(await visitors.mayOpen({ id: 'open', '*': '/a.js' }, { ...PAGE, label: 'other' }), false);
    assert.equal(await visitors.mayOpen({ id: 'open', '*': '/_v/v_1/a.js' }, PAGE), false);
    assert.equal(await visitors.mayOpen({ id: 'other', '*': '/a.js' }, { ...PAGE, label: 'other' }), false);
  });

  test('is not sent by a page of another origin, unless that is listed', () => {
    const { visitors } = setUp();
    const enter = (headers: Record<string, string>, listed = false) =>
      visitors.visitor(asking(headers), PAGE, 'tool', listed)?.enter('reads');
    const refusal = { code: 'FORBIDDEN', status: 403 };
    assert.throws(() => enter({ 'sec-fetch-site': 'cross-site' }), refusal);
    assert.throws(() => enter({ 'sec-fetch-site': 'same-site' }), refusal);
    assert.throws(() => enter({ origin: 'https://evil.example' }), refusal);
    assert.throws(() => enter({ origin: 'null' }), refusal);
    enter({ 'sec-fetch-site': 'cross-site', origin: 'https://www.example.org' }, true);
    enter({ 'sec-fetch-site': 'same-origin', origin: 'https://open.example.org' });
    enter({});
  });
});
