import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { clusterSettings, withoutPassword } from './settings.ts';

const url = 'postgres://svc:secret@db.example/svc';

test('settings are completed: one address or several, the name of this machine, the secret of the environment', () => {
  const { node, ...short } = clusterSettings({ url }, {});
  assert.deepEqual(short, { urls: [url], address: null, secret: null });
  assert.match(node, /^[A-Za-z0-9][A-Za-z0-9_.-]*$/);
  assert.ok(hostname().startsWith(node.slice(0, 1)));
  const urls = ['postgres://one.example/svc', 'postgresql://two.example/svc'];
  const long = { urls, node: 'a-1', address: 'https://a.example', secretEnv: 'SECRET' };
  assert.deepEqual(clusterSettings(long, { SECRET: 'x' }), {
    urls,
    node: 'a-1',
    address: 'https://a.example',
    secret: 'x',
  });
});

test('a wrong setting is an error that names its member', () => {
  const wrong: [value: unknown, message: RegExp][] = [
    ['postgres://db.example/svc', /^"cluster" in the configuration must be an object with either "url" or "urls"\.$/],
    [{}, /"cluster" in the configuration must be an object with either "url" or "urls"/],
    [{ url, urls: [url] }, /"cluster" in the configuration must be an object with either "url" or "urls"/],
    [
      { url: 'mysql://db.example/svc' },
      /"cluster\.url" in the configuration must be the address of a PostgreSQL database/,
    ],
    [
      { url: 'postgres://db.example:port/svc' },
      /"cluster\.url" in the configuration must be the address of a PostgreSQL/,
    ],
    [{ urls: [] }, /"cluster\.urls" in the configuration must be a list of 1 to 10 addresses/],
    [{ urls: [url, 'db.example'] }, /"cluster\.urls\[1\]" in the configuration must be the address of a PostgreSQL/],
    [{ url, node: 'a b' }, /"cluster\.node" in the configuration must be a name of 1 to 64 letters/],
    [{ url, address: 'a.example:8787' }, /"cluster\.address" in the configuration must be an http or https address/],
    [{ url, address: 'ftp://a.example' }, /"cluster\.address" in the configuration must be an http or https address/],
    [{ url, secretEnv: '1' }, /"cluster\.secretEnv" in the configuration must be the name of an environment variable/],
    [{ url, secretEnv: 'UNSET' }, /"cluster\.secretEnv" names the environment variable UNSET, which is not set/],
    [{ url, lease: 3 }, /"cluster\.lease" in the configuration must be/],
  ];
  for (const [value, message] of wrong)
    assert.throws(
      () => clusterSettings(value, {}),
      { name: 'ConfigError', key: 'cluster', message },
      JSON.stringify(value),
    );
});

test('an address is shown without its password', () => {
  assert.equal(withoutPassword('postgres://svc:secret@db.example:5433/svc'), 'postgres://svc@db.example:5433/svc');
  assert.equal(withoutPassword('postgres://db.example/svc?password=secret'), 'postgres://db.example/svc');
});
