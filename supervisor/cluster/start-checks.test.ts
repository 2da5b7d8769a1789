import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { pipeline } from 'node:stream';
import { after, afterEach, before, describe, test } from 'node:test';
import pg from 'pg';
import { Database } from '../../storage/cluster/database.ts';
import { TABLE_STEPS } from '../../storage/cluster/tables.ts';
import { Layout } from '../../storage/layout.ts';
import { freePort } from '../../testing/free-port.ts';
import { type Postgres, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Directory } from './directory.ts';
import { addressFault, checkStart, checkStore, clockWarning, type DatabaseFacts, faultOf } from './start-checks.ts';

const HERE = { name: 'one', address: 'http://one.example:8787' };

const sound: DatabaseFacts = {
  versionNumber: 140_000,
  version: '14.0',
  readOnly: 'off',
  synchronousCommit: 'on',
  standbyNames: '',
  fsync: 'on',
  fullPageWrites: 'on',
  now: 0,
};

test('what a server says of itself that no cluster can work with is told with its value', () => {
  assert.equal(faultOf(sound), null);
  assert.equal(faultOf({ ...sound, synchronousCommit: 'local' }), null, 'there is no standby to wait for');
  const wrong: [facts: Partial<DatabaseFacts>, message: RegExp][] = [
    [{ versionNumber: 130_014, version: '13.14' }, /PostgreSQL 13\.14\. A cluster needs 14 or newer/],
    [
      { synchronousCommit: 'local', standbyNames: 'a' },
      /synchronous_standby_names is "a".* synchronous_commit is "local"/,
    ],
  ];
  for (const [facts, message] of wrong) assert.match(faultOf({ ...sound, ...facts }) ?? '', message);
});

test('clocks that are apart are a warning, however long the answer took', () => {
  assert.deepEqual(clockWarning(10_000, 9500, 10_500), []);
  assert.deepEqual(clockWarning(10_000, 1000, 60_000), []);
  assert.match(clockWarning(10_000, 5000, 5010).join(), /are 5\.0 s apart/);
  assert.match(clockWarning(10_000, 12_500, 12_600).join(), /are 2\.5 s apart/);
});

test('a loopback address is refused only if another node that runs is elsewhere', () => {
  const other = (name: string, address: string, isLive = true) => ({
    name,
    address,
    isLive,
    instance: randomUUID(),
    version: '1.0.0',
    leaseUntil: '',
    started: '',
    draining: false,
  });
  for (const address of ['http://127.0.0.1:8787', 'http://localhost:8787', 'http://[::1]:8787']) {
    const fault = addressFault({ name: 'one', address }, [other('two', 'http://two.example')]);
    assert.match(
      fault ?? '',
      /"cluster\.address" is ".+", which only this machine reaches, and node "two" runs at http:\/\/two/,
    );
    assert.equal(addressFault({ name: 'one', address }, [other('two', 'http://127.0.0.2:1')]), null);
    assert.equal(addressFault({ name: 'one', address }, [other('two', 'http://two.example', false)]), null);
    assert.equal(addressFault({ name: 'one', address }, [other('one', 'http://one.example')]), null);
  }
  assert.equal(addressFault(HERE, [other('two', 'http://two.example')]), null);
});

describe('start checks', { skip: whyNoPostgres() ?? false }, () => {
  let server: Postgres;
  let admin: pg.Client;
  const opened: Database[] = [];

  before(async () => {
    server = await postgres();
    admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
  });
  after(async () => {
    await admin.end();
    await server.stop();
  });
  afterEach(() => Promise.all(opened.splice(0).map((one) => one.close())));

  const check = (...urls: string[]): Promise<string[]> => {
    const db = new Database(urls.length === 0 ? [server.url] : urls);
    opened.push(db);
    return checkStart(db, HERE);
  };
  /** With `name` set by this statement, as every new connection sees it; undone after `work`. */
  const withSetting = async (where: string, name: string, value: string, work: () => Promise<void>): Promise<void> => {
    const isSeen = async () => {
      const fresh = new pg.Client({ connectionString: server.url });
      await fresh.connect();
      const { rows } = await fresh.query('SELECT current_setting($1) AS value', [name]);
      await fresh.end();
      return rows[0].value === value;
    };
    await admin.query(`${where} SET ${name} = '${value}'`);
    await admin.query('SELECT pg_reload_conf()');
    try {
      assert.ok(await eventually(LIMIT_MS, isSeen), `${name} is ${value}`);
      await work();
    } finally {
      await admin.query(`${where} RESET ${name}`);
      await admin.query('SELECT pg_reload_conf()');
    }
    assert.ok(await eventually(LIMIT_MS, async () => !(await isSeen())));
  };
  const atUser = (user: string): string => Object.assign(new URL(server.url), { username: user }).href;

  test('a sound database gets its tables, and there is nothing to warn of', async () => {
    assert.deepEqual(await check(), []);
    assert.deepEqual(await check(), [], 'a second time');
    assert.equal((await admin.query('SELECT version FROM svc.meta')).rows[0].version, TABLE_STEPS.length);
  });

  test('a database that does not answer is named without its password', async () => {
    const port = await freePort();
    await assert.rejects(check(`postgres://svc:secret@127.0.0.1:${port}/svc`), (error: Error) => {
      assert.match(
        error.message,
        new RegExp(
          `"cluster.url" does not answer \\(postgres://svc@127.0.0.1:${port}/svc: .+\\)\\. See that its PostgreSQL runs`,
        ),
      );
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
    assert.deepEqual(await check(`postgres://svc@127.0.0.1:${port}/svc`, server.url), [], 'another address answers');
  });

  test('a server that cuts a connection off, as one that starts, is asked again, and one that refuses is not', async (t) => {
    let count = 0;
    const proxy = createServer((near) => {
      if (count++ === 0) near.destroy();
      else pipeline(near, connect(Number(new URL(server.url).port), '127.0.0.1'), near, () => {});
    }).listen(0, '127.0.0.1');
    t.after(() => proxy.close());
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    const here = (url: string): string => Object.assign(new URL(url), { port: `${port}` }).href;
    assert.deepEqual(await check(here(server.url)), []);
    const before = count;
    assert.ok(before > 1);
    await assert.rejects(check(here(atUser('nobody'))), {
      name: 'ConfigError',
      message: /does not answer .*nobody.*\)\.$/,
    });
    assert.equal(count, before + 1);
  });

  test('a server that takes no writes is refused', async () => {
    await withSetting('ALTER DATABASE svc', 'default_transaction_read_only', 'on', () =>
      assert.rejects(check(), { name: 'ConfigError', message: /setting default_transaction_read_only is "on"/ }),
    );
  });

  test('a server that does not sync, or could be damaged, is refused with the setting', async () => {
    const settings = [
      ['ALTER DATABASE svc', 'synchronous_commit'],
      ['ALTER SYSTEM', 'full_page_writes'],
    ] as const;
    for (const [where, name] of settings)
      await withSetting(where, name, 'off', () =>
        assert.rejects(check(), { name: 'ConfigError', message: new RegExp(`setting ${name} is "off"`) }),
      );
    assert.match(faultOf({ ...sound, fsync: 'off' }) ?? '', /setting fsync is "off"/);
  });

  test('a user without the right to make tables is told so, and needs none once they are there', async () => {
    await admin.query('DROP SCHEMA IF EXISTS svc CASCADE');
    await admin.query('CREATE ROLE guest LOGIN');
    await assert.rejects(check(atUser('guest')), {
      name: 'ConfigError',
      message: /user of "cluster" may not make or change the tables .*Let it own the schema svc/,
    });
    await check();
    await admin.query(
      'GRANT USAGE ON SCHEMA svc TO guest; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA svc TO guest',
    );
    assert.deepEqual(await check(atUser('guest')), []);
  });

  test('tables of a newer release are refused', async () => {
    await check();
    await admin.query('UPDATE svc.meta SET version = 99');
    await assert.rejects(check(), { code: 'DATA_FORMAT', message: /have version 99/ });
    await admin.query('UPDATE svc.meta SET version = $1', [TABLE_STEPS.length]);
  });

  test('a node with another kind of store than the first one is refused, with the setting and its value', async () => {
    const db = new Database([server.url]);
    opened.push(db);
    await checkStart(db, HERE);
    const [git, tarball] = [new Layout('/data', undefined, 'code'), new Layout('/data')];
    await checkStore(db, tarball);
    await checkStore(db, tarball);
    const ofGit = /have the tarball store, .*"appsStoreRoot" is "\/data\/code"\. Start it with --store tarball/;
    await assert.rejects(checkStore(db, git), { name: 'ConfigError', message: ofGit });
    await db.rows('UPDATE svc.meta SET store = NULL');
    await checkStore(db, git);
    const ofTarballs = /have the git store, .*"appsStoreRoot" is not set\. Start it without --store tarball/;
    await assert.rejects(checkStore(db, tarball), { name: 'ConfigError', message: ofTarballs });
  });

  test('a node that only its machine reaches is refused beside one elsewhere', async () => {
    const db = new Database([server.url]);
    opened.push(db);
    await checkStart(db, HERE);
    await new Directory(db).join({ ...HERE, instance: randomUUID(), version: '1.0.0' }, null);
    await assert.rejects(checkStart(db, { name: 'two', address: 'http://127.0.0.1:8787' }), {
      name: 'ConfigError',
      message: /"cluster\.address" is "http:\/\/127\.0\.0\.1:8787", which only this machine reaches/,
    });
  });
});
