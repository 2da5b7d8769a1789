// The files of a real gateway in a real PostgreSQL: another gateway goes on with them, and no file of a data directory is forgotten.
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { type TestContext, test } from 'node:test';
import { listTreeSync, pathOf } from '../storage/files/list-tree.ts';
import { Layout } from '../storage/layout.ts';
import { SharedFiles } from '../storage/shared-files/shared-files.ts';
import { belongingOf, LEFT_OUT, type LeftOut, nameOf, type Subject } from '../storage/shared-files/subjects.ts';
import { appOf } from '../testing/apps.ts';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { gatewayIn, type StoreKind, type TestGateway } from '../testing/gateway.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';
import { FileTables } from '../testing/shared-files.ts';

const skip = whyNoPostgres() ?? false;
/** What brings these to another node is another part of a cluster, or its operator. */
const BROUGHT = new Set<LeftOut>(['database', 'key', 'directory', 'code', 'whole']);
const STORE_MARK = 'apps/_store.json';

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** With some of everything that a gateway stores. */
async function filled(t: TestContext, folder: string, store: StoreKind): Promise<TestGateway> {
  const gateway = gatewayIn(folder, { store });
  t.after(() => gateway.stop());
  await gateway.start();
  await fill(gateway);
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await gateway.call(method, path, body === undefined ? {} : { body });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
  };
  await gateway.install('gone', appOf('gone', { files: { 'index.html': '<title>Gone</title>' } }));
  await ok('DELETE', '/svc/_apps/gone');
  if (store === 'git') {
    await ok('PUT', '/svc/_draft/draft/shop/_blobs', 'a file of the draft');
    await ok('POST', '/svc/_draft/draft/_tool/svc_read', { app: 'shop', query: 'list' });
    await ok('PUT', '/svc/_draft/draft/_apps/shop/settings', { colour: 'red' });
  }
  return gateway;
}

/** Paths of all files and links. */
function filesIn(dataDir: string): string[] {
  return listTreeSync(dataDir)
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(dataDir, pathOf(entry)));
}

function subjectsIn(paths: string[]): Subject[] {
  const found = new Map<string, Subject>();
  for (const path of paths) {
    const belonging = belongingOf(path);
    if (belonging !== null && 'subject' in belonging) found.set(nameOf(belonging.subject), belonging.subject);
  }
  return [...found.values()];
}

for (const store of ['git', 'tarball'] as const) {
  test(`every file of a data directory with the ${store} store is shared, or left out for a reason`, async (t) => {
    const folder = newFolder(t);
    const { dataDir } = await filled(t, folder, store);
    const paths = filesIn(dataDir);
    assert.deepEqual(
      paths.filter((path) => belongingOf(path) === null),
      [],
    );
    for (const path of paths) {
      const belonging = belongingOf(path);
      if (belonging !== null && 'leftOut' in belonging) assert.ok(LEFT_OUT[belonging.leftOut].length > 10, path);
    }
    const names = subjectsIn(paths).map(nameOf).sort();
    const ofGit = store === 'git' ? ['workspace/draft~shop'] : [];
    assert.deepEqual(names, ['app/gone', 'app/shop', ...ofGit]);
  });

  test(`a gateway on another data directory goes on with what was stored, with the ${store} store`, {
    skip,
  }, async (t) => {
    const [first, second] = [newFolder(t), newFolder(t)];
    const tables = await FileTables.make(await database());
    t.after(() => tables.close());
    const one = await filled(t, first, store);
    const was = await contentOf(one);
    const layoutOf = (dataDir: string) => new Layout(dataDir, undefined, store === 'git' ? 'code-store' : undefined);

    // While it runs, as before the answer to a request.
    const files = new SharedFiles(layoutOf(one.dataDir), tables);
    const subjects = subjectsIn(filesIn(one.dataDir));
    for (const subject of subjects) await files.store(subject, 1);
    await one.kill();

    const two = gatewayIn(second, { store });
    t.after(() => two.stop());
    for (const path of filesIn(one.dataDir)) {
      const belonging = belongingOf(path);
      const isBrought = belonging !== null && 'leftOut' in belonging && BROUGHT.has(belonging.leftOut);
      if (!isBrought && path !== STORE_MARK) continue;
      mkdirSync(dirname(join(two.dataDir, path)), { recursive: true, mode: 0o700 });
      copyFileSync(join(one.dataDir, path), join(two.dataDir, path));
    }
    const fetched = new SharedFiles(layoutOf(two.dataDir), tables);
    for (const subject of subjects) await fetched.fetch(subject);
    await two.start();
    assert.deepEqual(await contentOf(two), was);
    assert.equal((await two.call('GET', '/svc/_trash')).json.length, 1);
    assert.doesNotMatch(two.log, /"level":[56]0/);

    // What is changed there arrives as well.
    const drafted = store === 'git' ? await two.call('GET', '/svc/_draft/draft/_apps/shop/settings') : null;
    if (drafted !== null) assert.equal(drafted.json.settings.colour, 'red');
    await two.install(
      'shop',
      appOf('shop', { files: { 'index.html': '<title>Third</title>' }, migrations: migrationsOf(one) }),
    );
    assert.match((await two.call('GET', '/svc/shop/')).text, /Third/);
  });
}

/** The migrations of the app, which its next version must have too. */
function migrationsOf({ dataDir }: TestGateway): string[] {
  const file = filesIn(dataDir).find((path) => path.endsWith('migrations/0001_step.sql')) ?? '';
  return [readFileSync(join(dataDir, file), 'utf8')];
}
