import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressesOf, bareAddress, isNetwork, subscriberOf } from './ip-addresses.ts';

test('addresses and networks are recognized', () => {
  for (const text of ['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8', '2001:db8::1/128', '0.0.0.0/0'])
    assert.ok(isNetwork(text), text);
  for (const text of ['', 'localhost', '10.0.0.0/33', '10.0.0.0/', '::/129', '10.0.0', 'fe80::1%eth0', '1.2.3.4/8/8'])
    assert.ok(!isNetwork(text), text);
  const list = addressesOf(['10.0.0.0/8', 'fd00::/8']);
  assert.deepEqual(
    [list.check('10.9.9.9'), list.check('11.0.0.1'), list.check('fd12::1', 'ipv6'), list.check('fe12::1', 'ipv6')],
    [true, false, true, false],
  );
});

test('an IPv4 address is the same however a socket writes it', () => {
  for (const text of ['192.0.2.7', '::ffff:192.0.2.7', '::ffff:c000:207', '0000:0000:0000:0000:0000:ffff:c000:0207'])
    assert.deepEqual([bareAddress(text), subscriberOf(text)], ['192.0.2.7', '192.0.2.7'], text);
});

test('all addresses of an IPv6 network of 64 bits are one subscriber', () => {
  const same = ['2001:db8:1:2::', '2001:DB8:1:2::1', '2001:0db8:0001:0002:ffff:ffff:ffff:ffff', '2001:db8:1:2::1%eth0'];
  assert.deepEqual(new Set(same.map(subscriberOf)), new Set(['2001:db8:1:2::/64']));
  assert.equal(subscriberOf('2001:db8::1'), '2001:db8:0:0::/64');
  assert.equal(subscriberOf('::1'), '0:0:0:0::/64');
  assert.equal(subscriberOf('2001:db8:1:3::1'), '2001:db8:1:3::/64');
  assert.equal(subscriberOf('fe80::1:2:3:4'), 'fe80:0:0:0::/64');
  assert.equal(subscriberOf(''), '');
});
