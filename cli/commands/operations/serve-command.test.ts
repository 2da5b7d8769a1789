import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { svc, temporaryFolder } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';
import { drawPinoLine } from '../../terminal/log-entry.ts';
import { createStyle } from '../../terminal/style.ts';
import { readyLine, type Welcome, welcome } from './serve-command.ts';

const plain = createStyle(false);
const FACTS: Welcome = {
  open: 'http://svc.localhost:8787/svc/#link=c0',
  dataDir: '.svc',
  edge: 'uws',
  apps: [],
  more: 0,
  isByNpx: false,
};

test('the first line has the address but not the token, because logs keep that line', () => {
  assert.equal(
    readyLine({ version: '0.1.0', url: 'http://127.0.0.1:8787', pid: 12 }, plain),
    '● svc-gateway 0.1.0 is ready on http://127.0.0.1:8787 (pid 12)',
  );
});

test('the welcome has links that sign a browser in, for the console and the first apps', () => {
  const apps = ['a', 'notes'].map((id) => ({ id, open: `http://svc.localhost:8787/svc/#link=c1&open=${id}` }));
  const lines = welcome({ ...FACTS, apps, more: 2 }, plain);
  assert.ok(lines.includes('  open  http://svc.localhost:8787/svc/#link=c0'));
  assert.ok(lines.includes('  apps  a      http://svc.localhost:8787/svc/#link=c1&open=a'));
  assert.ok(lines.includes('        and 2 more: svc apps'));
  assert.ok(
    lines.some((line) => line.includes('svc open')),
    'how to get another one',
  );
  assert.ok(welcome(FACTS, plain).some((line) => line.includes('svc new notes && svc push notes')));
});

test('npx puts no command on the path, so the welcome names another', () => {
  const lines = welcome({ ...FACTS, isByNpx: true }, plain).join('\n');
  assert.match(lines, /npx svc-gateway new notes && npx svc-gateway push notes/);
  assert.match(lines, /npm install -g svc-gateway/);
});

test('--with takes a template, and says what there is for another word', async (t) => {
  const cwd = temporaryFolder(t);
  const misspelt = await svc(['serve', '--port', '0', '--with', 'tods'], { cwd });
  assert.equal(misspelt.code, EXIT.usage);
  assert.match(misspelt.stderr, /no folder and no template "tods"\.\n {2}Did you mean "todos"\?/);
  const unknown = await svc(['serve', '--port', '0', '--with', 'x'], { cwd });
  assert.match(unknown.stderr, /Templates: bookmarks, .*todos/);
  // A folder of that name is meant, and refused before anything starts.
  mkdirSync(join(cwd, 'todos'));
  const empty = await svc(['serve', '--port', '0', '--with', 'todos'], { cwd });
  assert.match(empty.stderr, /todos has no app\.json/);
  assert.deepEqual(readdirSync(cwd), ['todos']);
});

test("the gateway's log is one readable line for each entry, with its date, and a line for each place of a stack", () => {
  const stack = 'Error: it broke\n    at a (a.js:1:2)\n    at b (b.js:3:4)';
  const entry = {
    level: 40,
    time: 0,
    app: 'notes',
    err: { code: 'EIO', message: 'it broke', stack },
    msg: 'It broke.',
  };
  const [line = '', ...more] = drawPinoLine(JSON.stringify(entry), plain);
  assert.match(line, /^\d{4}-\d\d-\d\d \d\d:\d\d:00\.000 {2}warn {3}notes {2}It broke\. {2}code=EIO$/);
  assert.deepEqual(more, ['    │ Error: it broke', '    │ at a (a.js:1:2)', '    │ at b (b.js:3:4)']);
});

test('a data directory that cannot be made is named, with what to do', async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, 'file'), '');
  const serve = (place: string) => svc(['serve', '--port', '0', '--data-dir', place], { cwd });
  const below = await serve('file/data');
  assert.deepEqual([below.code, below.stdout], [EXIT.failed, '']);
  assert.match(below.stderr, /file\/data cannot be used: a folder in its path is a file\.\n {2}Check the path/);
  if (process.platform !== 'linux') return;
  // Node's recursive mkdir never ends there.
  for (const place of ['/proc/x', '/proc/x/y']) {
    const refused = await serve(place);
    assert.equal(refused.code, EXIT.failed);
    assert.match(
      refused.stderr,
      /^✗ \/proc\/x cannot be made: the folder above it takes no new folders\.\n {2}Name another/,
    );
  }
});

test('options of the cluster override those of the file, which may be the same for all nodes', async (t) => {
  const cwd = temporaryFolder(t);
  const cluster = { url: 'postgres://127.0.0.1:1/svc', secretEnv: 'UNSET' };
  writeFileSync(join(cwd, 'config.json'), JSON.stringify({ cluster }));
  const refusal = async (...options: string[]) => {
    const words = ['serve', '--config', 'config.json', '--data-dir', 'data', '--port', '0', ...options];
    return (await svc(words, { cwd })).stderr;
  };
  assert.match(await refusal('--node', 'a b'), /"cluster\.node" in the configuration must be a name/);
  assert.match(await refusal('--node-address', 'ftp://x'), /"cluster\.address" in the configuration must be/);
  const address = ['--node-address', 'http://10.0.0.5:8787'];
  assert.match(await refusal(...address), /The environment variable UNSET is not set/);
  const urls = ['--cluster', 'postgres://a.example/svc', '--cluster', 'mysql://b.example/svc'];
  assert.match(await refusal(...urls), /"cluster\.urls\[1\]" in the configuration must be the address of a PostgreSQL/);
});
