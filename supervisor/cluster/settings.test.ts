import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { type Config, checkConfig } from '../config.ts';
import { clusterSettings } from './settings.ts';

const url = 'postgres://svc:secret@db.example/svc';
const HERE = { host: '10.0.0.5', port: 8787, backups: null, blobs: null };
const ENVIRONMENT = { SECRET: 'x' };

test('settings are completed: one address or several, the name of this machine, where it listens, the secret', () => {
  const { node, ...short } = clusterSettings({ url, secretEnv: 'SECRET' }, HERE, ENVIRONMENT);
  assert.deepEqual(short, { urls: [url], address: 'http://10.0.0.5:8787', secret: 'x', s3: null });
  assert.match(node, /^[A-Za-z0-9][A-Za-z0-9_.-]*$/);
  assert.ok(hostname().startsWith(node.slice(0, 1)));
  assert.equal(clusterSettings({ url }, HERE, { SVC_CLUSTER_SECRET: 'y' }).secret, 'y');
  const urls = ['postgres://one.example/svc', 'postgresql://two.example/svc'];
  const long = { urls, node: 'a-1', address: 'https://a.example', secretEnv: 'SECRET' };
  assert.deepEqual(clusterSettings(long, { ...HERE, host: '::', port: 0 }, ENVIRONMENT), {
    urls,
    node: 'a-1',
    address: 'https://a.example',
    secret: 'x',
    s3: null,
  });
});

test('the store of large files gets its keys from the environment', () => {
  const s3 = { endpoint: 'https://s3.example', bucket: 'files', region: 'eu-1' };
  const settingsOf = (blobs: Config['blobs'], environment: NodeJS.ProcessEnv) =>
    clusterSettings({ url, secretEnv: 'SECRET' }, { ...HERE, blobs }, { ...ENVIRONMENT, ...environment }).s3;
  const names = { accessKeyEnv: 'AWS_ACCESS_KEY_ID', secretKeyEnv: 'AWS_SECRET_ACCESS_KEY' };
  const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
  assert.deepEqual(settingsOf({ s3 }, keys), { ...s3, ...names, prefix: '', accessKey: 'a', secretKey: 'b' });
  const own = { accessKeyEnv: 'A', secretKeyEnv: 'B', prefix: 'svc/' };
  assert.deepEqual(settingsOf({ s3: { ...s3, ...own } }, { A: '1', B: '2' }), {
    ...s3,
    ...own,
    accessKey: '1',
    secretKey: '2',
  });
  for (const [environment, name] of [
    [{}, 'AWS_ACCESS_KEY_ID'],
    [{ AWS_ACCESS_KEY_ID: 'a' }, 'AWS_SECRET_ACCESS_KEY'],
  ] as const)
    assert.throws(() => settingsOf({ s3 }, environment), {
      name: 'ConfigError',
      key: 'blobs',
      message: new RegExp(`^The environment variable ${name} is not set`),
    });
  const wrong: [value: object, message: RegExp][] = [
    [{}, /"blobs\.s3" in .* must be \{ "endpoint", "bucket", "region"/],
    [{ s3: { ...s3, endpoint: 's3.example' } }, /"blobs\.s3\.endpoint" in .* must be an http or https address/],
    [{ s3: { ...s3, bucket: 'a/b' } }, /"blobs\.s3\.bucket" in .* must be the name of a bucket/],
    [{ s3: { ...s3, prefix: 'svc' } }, /"blobs\.s3\.prefix" in .* must be a path such as "svc\/"/],
    [{ s3: { ...s3, prefix: '../svc/' } }, /"blobs\.s3\.prefix" in .* must be a path/],
    [{ s3: { ...s3, region: '' } }, /"blobs\.s3\.region" in .* must be a region/],
    [{ s3: { ...s3, secretKey: 'b' } }, /"blobs\.s3\.secretKey" in .* must be/],
  ];
  for (const [blobs, message] of wrong)
    assert.throws(
      () => checkConfig({ blobs }, 'the configuration'),
      { name: 'ConfigError', key: 'blobs', message },
      JSON.stringify(blobs),
    );
});

test('a wrong setting is an error that names its member', () => {
  const wrong: [value: unknown, message: RegExp][] = [
    ['postgres://db.example/svc', /^"cluster" in .* must be an object with either "url" or "urls"\.$/],
    [{}, /"cluster" in .* must be an object with either "url" or "urls"/],
    [{ url, urls: [url] }, /"cluster" in .* must be an object with either "url" or "urls"/],
    [{ url: 'mysql://db.example/svc' }, /"cluster\.url" in .* must be the address of a PostgreSQL database/],
    [{ url: 'postgres://db.example:port/svc' }, /"cluster\.url" in .* must be the address of a PostgreSQL/],
    [{ urls: [] }, /"cluster\.urls" in .* must be a list of 1 to 10 addresses/],
    [{ urls: [url, 'db.example'] }, /"cluster\.urls\[1\]" in .* must be the address of a PostgreSQL/],
    [{ url, node: 'a b' }, /"cluster\.node" in .* must be a name of 1 to 64 letters/],
    [{ url, address: 'a.example:8787' }, /"cluster\.address" in .* must be an http or https address/],
    [{ url, address: 'ftp://a.example' }, /"cluster\.address" in .* must be an http or https address/],
    [{ url, secretEnv: '1' }, /"cluster\.secretEnv" in .* must be the name of an environment variable/],
    [{ url, lease: 3 }, /"cluster\.lease" in .* must be/],
  ];
  for (const [cluster, message] of wrong)
    assert.throws(
      () => checkConfig({ cluster }, 'the configuration'),
      { name: 'ConfigError', key: 'cluster', message },
      JSON.stringify(cluster),
    );
});

type Here = Parameters<typeof clusterSettings>[1];

test('a setting that is missing, or has no value here, is an error that says what to set', () => {
  const lacking: [cluster: NonNullable<Config['cluster']>, here: Here, message: RegExp][] = [
    [{ url }, HERE, /environment variable SVC_CLUSTER_SECRET is not set/],
    [{ url, secretEnv: 'UNSET' }, HERE, /environment variable UNSET is not set/],
    [{ url, secretEnv: 'SECRET' }, { ...HERE, host: '0.0.0.0' }, /"cluster\.address" is missing/],
    [{ url, secretEnv: 'SECRET' }, { ...HERE, host: '127.0.0.1', port: 0 }, /"cluster\.address" is missing/],
  ];
  for (const [cluster, here, message] of lacking)
    assert.throws(() => clusterSettings(cluster, here, ENVIRONMENT), { name: 'ConfigError', key: 'cluster', message });
});

test('what a node cannot do is an error that says what to do instead', () => {
  const cluster = { url, secretEnv: 'SECRET' };
  const unfit: [here: Here, key: string, message: RegExp][] = [
    [{ ...HERE, backups: { cron: '0 3 * * *' } }, 'backups', /Back up the database of the cluster/],
  ];
  for (const [here, key, message] of unfit)
    assert.throws(() => clusterSettings(cluster, here, ENVIRONMENT), { name: 'ConfigError', key, message });
});
