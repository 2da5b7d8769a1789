/** `svc desktop` with a real browser on a real screen: the window, its sign-in, the gateway behind it, and its end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { Layout } from '../../storage/layout.ts';
import { isRunning } from '../../storage/processes/process-identity.ts';
import { appOf } from '../../testing/apps.ts';
import { root, TestGateway } from '../../testing/gateway.ts';
import { readProc } from '../../testing/processes.ts';
import { browserWithWindows, openScreen, type Screen, withoutScreen } from '../../testing/screen.ts';
import { eventually, inTime, LONG_MS } from '../../testing/waiting.ts';

/** Its page writes when it is shown, which only one that is signed in can. */
const DESK = appOf('desk', {
  queries: { seen: "async ({ db }) => db.all('SELECT what FROM seen ORDER BY id')" },
  actions: {
    note: {
      input: { type: 'object', properties: { what: { type: 'string' } } },
      run: "async ({ db, body }) => { await db.run('INSERT INTO seen (what) VALUES (?)', body.what); return { body: {} }; }",
      writes: ['seen'],
    },
  },
  migrations: ['CREATE TABLE seen (id INTEGER PRIMARY KEY, what TEXT);'],
  files: {
    'index.html': '<!doctype html><title>The desk</title><h1>The desk</h1><script src="page.js"></script>',
    'page.js': "addEventListener('load', () => svc.write({ action: 'note', input: { what: 'shown' } }));",
  },
});

const CONSOLE = 'Apps – svc';

type Shown = { page: string; shown: string; url: string; pid: number; started: boolean };

describe('svc desktop', { skip: withoutScreen() }, () => {
  const home = mkdtempSync(join(tmpdir(), 'svc-desktop-'));
  const dataDir = join(home, 'data');
  const layout = new Layout(dataDir);
  let screen: Screen;
  let env: NodeJS.ProcessEnv;
  let first: Shown;
  const gateway = new TestGateway(dataDir, []);

  before(async () => {
    screen = await openScreen();
    mkdirSync(join(home, 'bin'));
    // In a container everybody is root, for whom Chromium has no sandbox.
    const flags = `--disable-gpu${process.getuid?.() === 0 ? ' --no-sandbox' : ''}`;
    writeFileSync(join(home, 'bin/chromium'), `#!/bin/sh\nexec ${browserWithWindows()} ${flags} "$@"\n`, {
      mode: 0o755,
    });
    const path = `${join(home, 'bin')}:/usr/bin:/bin`;
    env = { PATH: path, HOME: home, TMPDIR: home, SVC_DATA_DIR: dataDir, DISPLAY: screen.display };
  });
  after(async () => {
    for (const folder of [dataDir, join(home, 'other')]) await svc('desktop', '--quit', '--data-dir', folder);
    await screen.close();
    rmSync(home, { recursive: true, force: true });
  });

  async function svc(...words: string[]): Promise<{ code: number; stdout: string }> {
    const child = spawn(process.execPath, [join(root, 'bin/svc.js'), ...words, '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [stdout, [code]] = await inTime(
      Promise.all([text(child.stdout), once(child, 'close')]),
      words.join(' '),
      LONG_MS,
    );
    return { code, stdout };
  }

  async function show(...words: string[]): Promise<Shown> {
    const { code, stdout } = await svc('desktop', ...words);
    assert.equal(code, 0, stdout);
    return JSON.parse(stdout) as Shown;
  }

  const noted = async () => (await gateway.read('desk', 'seen')).json.data.map(({ what }: { what: string }) => what);
  const inFront = (title: string) => eventually(LONG_MS, () => screen.titles()[0] === title);

  test('starts a gateway and shows its console, signed in', async () => {
    first = await show('--browser', 'chromium', '--port', '0');
    assert.deepEqual([first.shown, first.started], ['opened', true]);
    Object.assign(gateway, { url: first.url, pid: first.pid, token: readFileSync(layout.token, 'utf8').trim() });
    assert.ok(await inFront(CONSOLE), screen.titles().join(', '));
  });

  test('shows an app in another window, with the same gateway', async () => {
    await gateway.install('desk', DESK);
    const changes = await gateway.stream('/svc/desk/_changes');
    const { shown, started, pid, page } = await show('desk');
    assert.deepEqual([shown, started, pid], ['opened', false, first.pid]);
    assert.match(page, /^http:\/\/desk\.svc\.localhost:\d+\/$/);
    while ((await changes.next(LONG_MS)).event !== 'change');
    changes.close();
    assert.deepEqual(await noted(), ['shown']);
    assert.deepEqual(screen.titles(), ['The desk', CONSOLE]);
  });

  test('brings the window that shows a page to the front, and opens no second one', async () => {
    for (const [words, title] of [
      [[], CONSOLE],
      [['desk'], 'The desk'],
    ] as const) {
      const again = await show(...words);
      assert.deepEqual([again.shown, again.started, again.pid], ['focused', false, first.pid]);
      assert.ok(await inFront(title), screen.titles().join(', '));
    }
    assert.equal(screen.titles().length, 2);
    assert.deepEqual(await noted(), ['shown']);
  });

  test('signs a window in again whose session has ended', async () => {
    // A new token ends every session.
    assert.equal((await svc('token', 'rotate')).code, 0);
    gateway.token = readFileSync(layout.token, 'utf8').trim();
    assert.equal((await show('desk')).shown, 'focused');
    assert.ok(await eventually(LONG_MS, async () => (await noted()).length === 2));
  });

  test('says what is wrong: no such app, a port in use, a browser that ends', async () => {
    const failing = async (...words: string[]) => {
      const { code, stdout } = await svc('desktop', ...words);
      assert.equal(code, 1, stdout);
      return JSON.parse(stdout).error as { code: string; message: string; hint: string };
    };
    assert.equal((await failing('nothing')).code, 'UNKNOWN_APP');
    const other = join(home, 'other');
    const taken = await failing('--data-dir', other, '--port', String(gateway.port));
    assert.match(taken.message, /Another gateway .* is listening on port/);
    assert.match(taken.hint, /svc desktop --port 0/);
    const broken = join(home, 'bin/broken');
    writeFileSync(broken, '#!/bin/sh\necho There is no such screen. >&2\nexit 1\n', { mode: 0o755 });
    const ended = await failing('--data-dir', other, '--port', '0', '--browser', broken);
    assert.equal(ended.message, 'broken cannot show a window: There is no such screen.');
    assert.equal(typeof JSON.parse((await svc('desktop', '--quit', '--data-dir', other)).stdout).stopped, 'number');
  });

  test('no argument of a program has the link', () => {
    for (const { words } of programs()) assert.doesNotMatch(words, /link=/);
  });

  test('the gateway outlives the windows, which open again', async () => {
    const { owner } = JSON.parse(readFileSync(layout.window, 'utf8')) as { owner: { pid: number } };
    process.kill(owner.pid, 'SIGTERM');
    assert.ok(await eventually(LONG_MS, () => screen.titles().length === 0), screen.titles().join(', '));
    assert.ok(await eventually(LONG_MS, () => !isRunning(owner.pid)));
    assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
    const again = await show('desk');
    assert.deepEqual([again.shown, again.started, again.pid], ['opened', false, first.pid]);
    assert.ok(await eventually(LONG_MS, async () => (await noted()).length === 3));
  });

  test('--quit closes the windows and stops the gateway', async () => {
    const { stdout } = await svc('desktop', '--quit');
    assert.deepEqual(JSON.parse(stdout), { closed: true, stopped: first.pid });
    assert.ok(await eventually(LONG_MS, () => programs().length === 0), JSON.stringify(programs()));
    assert.deepEqual(screen.titles(), []);
    assert.deepEqual(JSON.parse((await svc('desktop', '--quit')).stdout), { closed: false, stopped: null });
  });

  test('adopts a gateway that runs, and does not stop it', async (t) => {
    const own = new TestGateway(dataDir, [], { TMPDIR: home });
    await own.start();
    t.after(() => own.stop());
    const { started, pid } = await show('desk');
    assert.deepEqual([started, pid], [false, own.pid]);
    const { code, stdout } = await svc('desktop', '--quit');
    assert.equal(code, 1);
    assert.match(JSON.parse(stdout).error.message, /was not started by svc desktop, and keeps running/);
    assert.equal(own.isRunning, true);
    assert.ok(await eventually(LONG_MS, () => screen.titles().length === 0));
  });

  /** Those of this test that run: the gateway, its processes, the holder of the windows, the browser. */
  function programs(): { pid: number; words: string }[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && isRunning(Number(name)))
      .map((name) => ({ pid: Number(name), words: (readProc(name, 'cmdline') ?? '').replaceAll('\0', ' ') }))
      .filter(({ words }) => words.includes(home));
  }
});
