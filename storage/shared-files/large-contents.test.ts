/** Large files in a real PostgreSQL and an S3-compatible store: what one data directory had is what another one gets. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { TestObjectStore } from '../../testing/object-store.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { FileTables } from '../../testing/shared-files.ts';
import { Layout } from '../layout.ts';
import { hasObjects, LargeContents } from './large-contents.ts';
import { type ObjectBody, S3 } from './s3.ts';
import { Fenced, SharedFiles } from './shared-files.ts';
import type { Subject } from './subjects.ts';

const LARGE = LIMITS.sharedPieceBytes + 1;

describe('large contents', { skip: whyNoPostgres() ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-large-contents-'));
  const opened: FileTables[] = [];
  let store: TestObjectStore;
  const ends: (() => unknown)[] = [];
  before(async () => {
    store = await TestObjectStore.start({ after: (end) => ends.push(end) });
  });
  after(async () => {
    for (const end of ends) await end();
    await Promise.allSettled(opened.map((tables) => tables.close()));
    rmSync(folder, { recursive: true, force: true });
  });

  async function cluster(): Promise<FileTables> {
    const tables = await FileTables.make(await database());
    opened.push(tables);
    return tables;
  }

  let nodes = 0;
  /** A node with an empty data directory; `large` as it is given. */
  function node(tables: FileTables, large: LargeContents | null = new LargeContents(new S3(store.settings), tables)) {
    const layout = new Layout(join(folder, `node-${++nodes}`));
    const put = (app: string, bytes: Buffer): { hash: string; path: string } => {
      const hash = createHash('sha256').update(bytes).digest('hex');
      const path = join(layout.dataDir, `apps/${app}/_blobs/${hash}`);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      writeFileSync(path, bytes);
      return { hash, path };
    };
    const has = (app: string, hash: string): Buffer | null => {
      const path = join(layout.dataDir, `apps/${app}/_blobs/${hash}`);
      return existsSync(path) ? readFileSync(path) : null;
    };
    return { files: new SharedFiles(layout, tables, large), put, has };
  }

  const pathOf = (key: string): string => `svc-files/test/${key}`;
  const objectOf = (key: string) => store.objects.get(pathOf(key));
  const app = (id: string): Subject => ({ kind: 'app', id });

  async function keysOf(tables: FileTables, where = 'object IS NOT NULL'): Promise<string[]> {
    const { rows } = await tables.pool.query(`SELECT object FROM svc.contents WHERE ${where} ORDER BY object`);
    return rows.map(({ object }) => object);
  }

  /** As if the time of grace were over. */
  const age = (tables: FileTables) => tables.pool.query(`UPDATE svc.unnamed_objects SET since = 'epoch'`);

  test('a file above 1 MiB is an object, once, and another node gets it', async () => {
    const tables = await cluster();
    const [one, two] = [node(tables), node(tables)];
    assert.equal(await hasObjects(tables), false);
    const [bytes, small] = [randomBytes(LARGE), randomBytes(LARGE - 1)];
    const { hash } = one.put('notes', bytes);
    const { hash: ofSmall } = one.put('notes', small);
    await one.files.store(app('notes'), 1);
    const [key = '', ...more] = await keysOf(tables);
    assert.ok(key.startsWith(`${hash}/`) && more.length === 0);
    assert.ok(objectOf(key)?.equals(bytes));
    assert.equal(await tables.count('svc.unnamed_objects'), 0);
    assert.equal(await hasObjects(tables), true);

    await two.files.fetch(app('notes'));
    assert.ok(two.has('notes', hash)?.equals(bytes) && two.has('notes', ofSmall)?.equals(small));

    const { bytes: sent } = tables;
    one.put('other', bytes);
    await one.files.store(app('other'), 1);
    assert.deepEqual(await keysOf(tables), [key], 'another app that has the same shares it');
    assert.equal(tables.bytes, sent);
  });

  test('what the database had in pieces before is read as it is', async () => {
    const tables = await cluster();
    const [before, now] = [node(tables, null), node(tables)];
    const bytes = randomBytes(2 * LARGE);
    const { hash } = before.put('notes', bytes);
    await before.files.store(app('notes'), 1);
    await now.files.fetch(app('notes'));
    assert.ok(now.has('notes', hash)?.equals(bytes));
    now.put('other', bytes);
    await now.files.store(app('other'), 1);
    assert.deepEqual(await keysOf(tables), [], 'and is not sent again');
  });

  test('an object that nothing names goes after a time of grace, and only then', async () => {
    const tables = await cluster();
    const [one, two] = [node(tables), node(tables)];
    const bytes = randomBytes(LARGE);
    const { hash } = one.put('notes', bytes);
    await one.files.store(app('notes'), 1);
    await one.files.remove(app('notes'), 1);
    const [first = ''] = await keysOf(tables);
    assert.deepEqual(await one.files.sweep(), { removed: 1, isRound: true });
    assert.ok(store.keys.includes(first), 'an older database may name it');

    await one.files.store(app('notes'), 1);
    const [second = ''] = await keysOf(tables);
    assert.notEqual(second, first);
    await age(tables);
    await one.files.sweep();
    assert.equal(store.keys.includes(first), false);
    assert.equal(await tables.count('svc.unnamed_objects'), 0);
    await two.files.fetch(app('notes'));
    assert.ok(two.has('notes', hash)?.equals(bytes), 'what was stored meanwhile is there');
  });

  test('an object that was sent and never named goes too', async () => {
    const tables = await cluster();
    const one = node(tables);
    const { hash } = one.put('notes', randomBytes(LARGE));
    await tables.pool.query('UPDATE svc.buckets SET epoch = 2');
    await assert.rejects(one.files.store(app('notes'), 1), (error) => error instanceof Fenced);
    const { rows } = await tables.pool.query('SELECT key FROM svc.unnamed_objects');
    assert.ok(rows.length === 1 && rows[0].key.startsWith(hash) && store.keys.includes(rows[0].key));
    await age(tables);
    await one.files.sweep();
    assert.equal(store.keys.includes(rows[0].key), false);
  });

  test('an object that is being deleted is not named: the content is sent again', async () => {
    const tables = await cluster();
    const going: string[] = [];
    class Late extends LargeContents {
      /** The first one takes so long that a sweep finds it, which is killed before it is done. */
      override async put(body: ObjectBody): Promise<string> {
        const key = await super.put(body);
        if (going.length === 0) {
          going.push(key);
          await tables.pool.query('UPDATE svc.unnamed_objects SET is_going = true');
          store.objects.delete(pathOf(key));
        }
        return key;
      }
    }
    const one = node(tables, new Late(new S3(store.settings), tables));
    const two = node(tables);
    const bytes = randomBytes(LARGE);
    const { hash } = one.put('notes', bytes);
    await one.files.store(app('notes'), 1);
    assert.notDeepEqual(await keysOf(tables), going);
    assert.equal(await tables.count('svc.unnamed_objects'), 1);
    await two.files.fetch(app('notes'));
    assert.ok(two.has('notes', hash)?.equals(bytes));
  });

  test('apps that store, remove and sweep at once never lose an object that one of them has', async () => {
    const tables = await cluster();
    const apps = Array.from({ length: 4 }, (_, n) => `app-${n}`);
    const shared = [randomBytes(LARGE), randomBytes(LARGE)];
    let isOver = false;
    const sweeper = node(tables);
    const steps = new EventEmitter();
    const sweeps = (async () => {
      // Each time it strikes who sends something at that moment.
      for (await once(steps, 'stored'); !isOver; await once(steps, 'stored')) {
        await age(tables);
        await sweeper.files.sweep();
      }
    })();
    const rounds = Promise.all(
      apps.map(async (id) => {
        const [one, two] = [node(tables), node(tables)];
        const paths = shared.map((bytes) => one.put(id, bytes));
        for (let round = 0; round < 8; round++) {
          await one.files.store(app(id), 1);
          steps.emit('stored');
          await two.files.fetch(app(id));
          for (const [n, { hash }] of paths.entries()) assert.ok(two.has(id, hash)?.equals(shared[n] as Buffer));
          await one.files.remove(app(id), 1);
        }
      }),
    );
    await rounds.finally(() => {
      isOver = true;
      steps.emit('stored');
    });
    await sweeps;
  });

  test('a damaged or missing object is never in its place, and is named', async () => {
    const tables = await cluster();
    const [one, two] = [node(tables), node(tables)];
    const { hash } = one.put('notes', randomBytes(LARGE));
    await one.files.store(app('notes'), 1);
    const [key = ''] = await keysOf(tables);
    const whole = objectOf(key) ?? Buffer.of();
    const damaged = (how: string) => ({ code: 'STORE_DAMAGED', message: new RegExp(`_blobs/${hash}.*${how}`) });
    store.objects.set(pathOf(key), Buffer.concat([whole, Buffer.of(0)]));
    await assert.rejects(
      two.files.fetch(app('notes')),
      damaged(`has ${whole.length} bytes, and .* ${key} .* has more`),
    );
    store.objects.set(pathOf(key), Buffer.concat([whole.subarray(1), Buffer.of(0)]));
    await assert.rejects(two.files.fetch(app('notes')), damaged('damaged content'));
    store.objects.delete(pathOf(key));
    await assert.rejects(two.files.fetch(app('notes')), damaged(`lacks its content, the object ${key} of`));
    assert.equal(two.has('notes', hash), null);
  });

  test('a store that is away is told, and works again when it is back', async () => {
    const tables = await cluster();
    const [one, two, bare] = [node(tables), node(tables), node(tables, null)];
    const bytes = randomBytes(LARGE);
    const { hash } = one.put('notes', bytes);
    await store.stop();
    const away = { code: 'STORAGE_UNAVAILABLE', message: /"blobs\.s3\.endpoint" \(http.*does not answer/ };
    await assert.rejects(one.files.store(app('notes'), 1), away);
    assert.equal(await tables.count('svc.entries'), 0, 'nothing names what is not there');
    await store.start();
    await one.files.store(app('notes'), 1);
    await store.stop();
    await assert.rejects(two.files.fetch(app('notes')), away);
    await store.start();
    await two.files.fetch(app('notes'));
    assert.ok(two.has('notes', hash)?.equals(bytes));
    await assert.rejects(bare.files.fetch(app('notes')), {
      code: 'STORAGE_UNAVAILABLE',
      message: /this node has none\. Set "blobs\.s3"/,
    });
  });

  test('only the store that the cluster began with is its store', async () => {
    const tables = await cluster();
    const at = (prefix: string) => new LargeContents(new S3({ ...store.settings, prefix }), tables);
    await Promise.all([at('own/').check(), at('own/').check()]);
    await at('own/').check();
    await assert.rejects(at('other/').check(), { message: /lacks the object cluster\/.*copy all objects there/ });
    assert.ok(![...store.objects.keys()].some((path) => path.includes('/probe/')), 'it leaves nothing behind');
  });
});
