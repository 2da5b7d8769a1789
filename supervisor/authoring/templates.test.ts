import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LIMITS } from '../../protocol/limits.ts';
import { Templates } from './templates.ts';

const ARCHIVE = Buffer.from('the bytes of an archive');
const sha256 = createHash('sha256').update(ARCHIVE).digest('hex');

let folder: string;
let base: string;
let answer: RequestListener;
let warnings: string[];
const server = createServer((request, response) => answer(request, response));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-templates-'));
  await mkdir(join(folder, 'bundled'));
  warnings = [];
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Resolves when the catalog has been fetched, or could not be. */
async function opened(catalog: unknown, archive: RequestListener = (_, response) => response.end(ARCHIVE)) {
  const text = typeof catalog === 'string' ? catalog : JSON.stringify({ templates: catalog });
  answer = (request, response) => {
    if (request.url === '/catalog/all.json') response.end(text);
    else archive(request, response);
  };
  return reopened();
}

async function reopened() {
  const templates = await new Promise<Templates>((resolve) => {
    const warn = (_: unknown, message: string) => {
      warnings.push(message);
      resolve(made);
    };
    const made = new Templates({
      folder: join(folder, 'bundled'),
      cacheDir: join(folder, 'cache'),
      url: `${base}/catalog/all.json`,
      log: { info: () => resolve(made), warn } as never,
    });
    made.open();
  });
  await templates.stop();
  return templates;
}

const ids = async (templates: Templates) => (await templates.list()).map(({ id }) => id);
const entry = (id: string, url: unknown) => ({ id, name: id, url, sha256 });

/** A second one, whose fetches nobody has stopped, over what the first left in its cache. */
function following(): Templates {
  const log = { info: () => {}, warn: () => {} };
  return new Templates({
    folder: join(folder, 'bundled'),
    cacheDir: join(folder, 'cache'),
    url: `${base}/catalog/all.json`,
    log: log as never,
  });
}

test('only addresses of servers are taken from a catalog', async () => {
  const secret = join(folder, 'secret');
  await writeFile(secret, ARCHIVE);
  const templates = await opened([
    entry('relative', 'relative.tgz'),
    entry('whole', `${base}/whole.tgz`),
    entry('data', `data:application/gzip;base64,${ARCHIVE.toString('base64')}`),
    entry('file', pathToFileURL(secret).href),
    entry('blob', `blob:${base}/0b9a5b5e-5b1c-4c8e-9a55-1f7f3c5f0f57`),
    entry('about', 'about:blank'),
    entry('javascript', 'javascript:1'),
    entry('none', ''),
    entry('number', 7),
    entry('broken', 'http://['),
  ]);
  assert.deepEqual(await ids(templates), ['relative', 'whole']);
});

test('a cache that an older gateway left is held to the same rule', async () => {
  await opened([]);
  const cached = { templates: [entry('data', `data:,${ARCHIVE}`), entry('good', `${base}/good.tgz`)] };
  await writeFile(join(folder, 'cache/catalog.json'), JSON.stringify(cached));
  assert.deepEqual(await ids(following()), ['good']);
});

test('an archive is fetched relative to the catalog, over redirects to servers, once', async () => {
  const asked: (string | undefined)[] = [];
  await opened([entry('good', 'good.tgz')], (request, response) => {
    asked.push(request.url);
    if (request.url === '/moved.tgz') response.end(ARCHIVE);
    else response.writeHead(302, { location: '/moved.tgz' }).end();
  });
  for (let turn = 0; turn < 2; turn++) {
    const { source } = await following().source('good');
    assert.deepEqual(await readFile((source as { archive: string }).archive), ARCHIVE);
  }
  assert.deepEqual(asked, ['/catalog/good.tgz', '/moved.tgz']);
});

const endless: RequestListener = (_, response) => {
  const chunk = Buffer.alloc(1024 * 1024);
  const write = (): void => {
    while (response.write(chunk));
  };
  response.on('drain', write);
  write();
};

const refused: [name: string, archive: RequestListener][] = [
  ['a redirect to data', (_, response) => response.writeHead(302, { location: `data:,${ARCHIVE}` }).end()],
  ['a redirect to a file', (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end()],
  ['redirects in a circle', (request, response) => response.writeHead(302, { location: request.url }).end()],
  ['an error', (_, response) => response.writeHead(500).end(ARCHIVE)],
  ['an answer without end', endless],
  ['other bytes', (_, response) => response.end('other')],
  ['no answer', (_, response) => response.destroy()],
];
for (const [name, archive] of refused) {
  test(`a template that is ${name} is refused, and no part of it is kept`, async () => {
    await opened([entry('good', 'good.tgz')], archive);
    await assert.rejects(following().source('good'), { code: 'TEMPLATE_FAILED', status: 502 });
    await assert.rejects(readFile(join(folder, 'cache', `good-${sha256.slice(0, 16)}.tgz`)), { code: 'ENOENT' });
  });
}

test('an invalid or too large catalog keeps the previous one', async () => {
  assert.deepEqual(await ids(await opened([entry('good', 'good.tgz')])), ['good']);
  for (const catalog of ['{', '[]', 'null', '{"templates":{}}', ' '.repeat(LIMITS.templateCatalogBytes + 1)]) {
    warnings = [];
    assert.deepEqual(await ids(await opened(catalog)), ['good']);
    assert.deepEqual(warnings, ['The catalog of templates could not be fetched.']);
  }
});

test('entries that say nonsense are left out, and of two with one id the last is taken', async () => {
  const good = entry('good', 'good.tgz');
  const templates = await opened([
    null,
    7,
    [],
    entry('_bad', 'a'),
    entry('../up', 'a'),
    { ...good, sha256: '../../x' },
    { ...good, name: 7 },
    { ...good, queries: -1, actions: 'many', automations: 2, description: 7 },
    { ...good, name: 'Second' },
  ]);
  assert.deepEqual(
    (await templates.list()).map(({ name, queries, actions, automations }) => [name, queries, actions, automations]),
    [['Second', 0, 0, 0]],
  );
});

test('a server that sends a byte at a time does not hold a fetch longer than its limit', {
  timeout: 20_000,
}, async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const archive: RequestListener = (_, response) => {
    const drip = setInterval(() => {
      response.write('x');
      collectGarbage();
    }, 5);
    response.on('close', () => clearInterval(drip));
  };
  await opened([entry('slow', 'slow.tgz')], archive);
  const templates = new Templates({
    folder: join(folder, 'bundled'),
    cacheDir: join(folder, 'cache'),
    url: `${base}/catalog/all.json`,
    log: { info: () => {}, warn: () => {} } as never,
    fetchMs: 100,
  });
  await assert.rejects(templates.source('slow'), { code: 'TEMPLATE_FAILED' });
});
