import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Egress, type EgressPolicy, isHostPattern } from './egress.ts';

const PATTERNS: [text: unknown, is: boolean][] = [
  ['api.example.com', true],
  ['API.example.com:8443', true],
  ['*.example.com', true],
  ['*', true],
  ['*:443', true],
  ['localhost', true],
  ['10.0.0.1', true],
  ['10.0.0.0/8', true],
  ['10.0.0.0/8:5432', true],
  ['::1', true],
  ['[::1]:80', true],
  ['fd00::/8', true],
  ['[fd00::]/8:80', true],
  ['', false],
  ['https://example.com', false],
  ['example.com/path', false],
  ['*example.com', false],
  ['a.*.com', false],
  ['example.com:0', false],
  ['example.com:65536', false],
  ['example.com:', false],
  ['10.0.0.0/33', false],
  ['10.0.0', false],
  ['999.1.1.1', false],
  ['fe80::1%eth0', false],
  ['exa mple.com', false],
  ['.example.com', false],
  [7, false],
  [null, false],
  ['a'.repeat(301), false],
];
for (const [text, is] of PATTERNS) {
  test(`pattern: ${JSON.stringify(text)?.slice(0, 40)} ${is ? 'is' : 'is not'} one`, () => {
    assert.equal(isHostPattern(text), is);
  });
}

const OPEN: EgressPolicy = { allow: [], deny: [], network: null, port: 8787 };
const isOurs = (address: string) => address === '127.0.0.1' || address === '::1' || address === '192.168.1.5';

type Case = [
  name: string,
  policy: Partial<EgressPolicy>,
  target: [host: string, address: string | null, port?: number],
  why: RegExp | null,
];
const CASES: Case[] = [
  ['the open web', {}, ['example.com', '93.184.215.14'], null],
  ['a neighbour in the network', {}, ['db.lan', '192.168.1.9'], null],
  ['metadata by address', {}, ['169.254.169.254', '169.254.169.254'], /169\.254\.0\.0\/16/],
  ['metadata by a name', {}, ['metadata.example', '169.254.169.254'], /169\.254\.0\.0\/16/],
  ['metadata as mapped IPv6', {}, ['[::ffff:169.254.169.254]', '::ffff:169.254.169.254'], /169\.254\.0\.0\/16/],
  ['metadata as mapped IPv6 in hex', {}, ['x', '::ffff:a9fe:a9fe'], /169\.254\.0\.0\/16/],
  ['metadata through a translating network', {}, ['x', '64:ff9b::a9fe:a9fe'], /169\.254\.0\.0\/16/],
  ['metadata of EC2 over IPv6', {}, ['x', 'fd00:ec2::254'], /fd00:ec2::254/],
  ['metadata of Alibaba', {}, ['x', '100.100.100.200'], /100\.100\.100\.200/],
  ['link-local IPv6 with a zone', {}, ['x', 'fe80::1%eth0'], /fe80::\/10/],
  ['opened by its network', { allow: ['169.254.0.0/16'] }, ['x', '169.254.169.254'], null],
  ['opened by its name', { allow: ['metadata.lan:80'] }, ['metadata.lan', '169.254.169.254', 80], null],
  ['opened for another port', { allow: ['metadata.lan:80'] }, ['metadata.lan', '169.254.169.254', 81], /169\.254/],
  ['the gateway itself', {}, ['localhost', '127.0.0.1', 8787], /the gateway itself/],
  ['the gateway by another address of the machine', {}, ['me.lan', '192.168.1.5', 8787], /the gateway itself/],
  ['the gateway by a mapped address', {}, ['x', '::ffff:127.0.0.1', 8787], /the gateway itself/],
  ['another port of the machine', {}, ['localhost', '127.0.0.1', 8788], null],
  ['that port elsewhere', {}, ['db.lan', '192.168.1.9', 8787], null],
  ['the gateway, opened', { allow: ['localhost:8787'] }, ['localhost', '127.0.0.1', 8787], null],
  ['denied by name', { deny: ['*.corp'] }, ['a.b.corp', null], /"\*\.corp" in egress\.deny/],
  ['denied with the last dot', { deny: ['a.corp'] }, ['A.CORP.', null], /egress\.deny/],
  ['the name below *. itself', { deny: ['*.corp'] }, ['corp', null], null],
  ['denied by address', { deny: ['10.0.0.0/8'] }, ['db.lan', '10.1.2.3'], /"10\.0\.0\.0\/8"/],
  ['denied and allowed', { deny: ['x.lan'], allow: ['x.lan'], network: ['x.lan'] }, ['x.lan', '10.1.2.3'], /deny/],
  ['nothing at all', { deny: ['*'] }, ['example.com', null], /"\*" in egress\.deny/],
  ['in the app list', { network: ['api.example.com'] }, ['api.example.com', '93.184.215.14'], null],
  [
    'not in the app list',
    { network: ['api.example.com'] },
    ['evil.example.com', null],
    /add "evil\.example\.com" to "network"/,
  ],
  ['not in it by port', { network: ['a.com:443'] }, ['a.com', null, 8443], /add "a\.com:8443"/],
  ['in an empty app list', { network: [] }, ['example.com', null], /"network"/],
  ['in the app list by address', { network: ['10.0.0.0/8'] }, ['db.lan', '10.1.2.3'], null],
  ['not in the app list by address', { network: ['10.0.0.0/8'] }, ['db.lan', '11.1.2.3'], /"network"/],
  ['by address, before it is known', { network: ['10.0.0.0/8'] }, ['db.lan', null], null],
  ['an app list opens nothing that is refused', { network: ['*'] }, ['x', '169.254.169.254'], /169\.254/],
  ['allow does not widen an app list', { network: ['a.com'], allow: ['b.com'] }, ['b.com', null], /"network"/],
];
for (const [name, policy, [host, address, port = 443], why] of CASES) {
  test(`egress: ${name}`, () => {
    const refusal = new Egress({ ...OPEN, ...policy }, isOurs).refusal({ host, address, port });
    if (why === null) assert.equal(refusal, null);
    else assert.match(refusal ?? 'not refused', why);
  });
}
