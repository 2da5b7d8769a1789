/**
 * Previews in a browser that is not signed in, by `svc dev --open` and by the address that is printed; and what `svc dev`
 * says of faults while a preview is open: errors of the page in the terminal, and faults of handlers over the page.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { BrowserContext, Page } from 'playwright-core';
import { signBrowserIn } from '../../testing/browser-session.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { appFolder, ENDS_WITH_PARENT, root, TestGateway } from '../../testing/gateway.ts';
import { baseOf, consoleOf, linkTo, originOf } from '../../testing/pages.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
const NOTES = { workspace: 'dev-notes', app: 'notes' };
const FAULTY = { workspace: 'dev-faulty', app: 'faulty' };

const SVC = join(root, 'bin/svc.js');

const READ_BOOM = `svc.read({ query: 'boom' }).catch(() => {})`;

const FILES = {
  'app.json': JSON.stringify({
    id: 'faulty',
    name: 'Faulty',
    version: '1.0.0',
    queries: [{ name: 'boom' }, { name: 'fine' }, { name: 'typed' }],
    actions: [{ name: 'refuse' }],
  }),
  'queries/boom.js': "import { deep } from '../lib/deep.js';\nexport default async () => deep(null);\n",
  'queries/typed.ts': 'export default async (): Promise<number> => 1;\n',
  'queries/fine.js': 'export default async () => 1;\n',
  'lib/deep.js': 'export function deep(value) {\n  return value.member;\n}\n',
  'actions/refuse.js': "export default async () => {\n  throw new RangeError('<b>not</b> today');\n};\n",
  'index.html': `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Faulty</title></head>
<body><h1>Faulty</h1><dialog><p>A dialog</p></dialog>
<script src="js/app.js"></script>
</body>
</html>
`,
  'js/app.js': `window.faults = {
  logs() {
    console.error('It is', { wrong: true });
  },
  throws() {
    setTimeout(() => {
      null.member;
    });
  },
  rejects() {
    Promise.reject(new RangeError('out of it'));
  },
  asks() {
    return fetch('data/missing.json').then((answer) => answer.status);
  },
  embeds() {
    document.body.append(Object.assign(new Image(), { src: 'img/none.png' }));
  },
  reaches() {
    return fetch('https://elsewhere.example/').catch(() => {});
  },
  loops() {
    for (let i = 0; i < 313; i++) console.error('again and again');
  },
};
`,
};

describe('svc dev', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ store: 'git' });

  describe('previews', () => previews(gateway));
  describe('errors while developing', () => errors(gateway));
});

function previews(gateway: TestGateway): void {
  const home = mkdtempSync(join(tmpdir(), 'svc-previews-'));
  let context: BrowserContext;
  let dev: ChildProcess;
  /** The first event that `svc dev` prints. */
  let ready: { preview: string };
  /** The file with which it starts the browser. */
  let opened: string;

  before(async () => {
    // Replaces the system's program: passes on the file to open.
    writeFileSync(join(home, 'xdg-open'), `#!/bin/sh\nprintf %s "$*" > '${home}/opened'\n`, { mode: 0o755 });
    execFileSync('mkfifo', [join(home, 'opened')]);
    const env = {
      HOME: home,
      PATH: `${home}:${process.env.PATH}`,
      SVC_URL: gateway.url,
      SVC_TOKEN: gateway.token,
    };
    execFileSync(process.execPath, [SVC, 'new', 'notes'], { cwd: home, env });
    dev = spawn(process.execPath, [SVC, 'dev', 'notes', '--open', '--json'], {
      cwd: home,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    assert.ok(dev.stdout, 'its output is a pipe');
    const lines = createInterface({ input: dev.stdout });
    lines.on('line', (line) => {
      const event = JSON.parse(line);
      if (event.event === 'ready') ready = event;
    });
    opened = await readFile(join(home, 'opened'), 'utf8');
  });
  after(async () => {
    const exit = once(dev, 'exit');
    dev.kill('SIGINT');
    await exit;
    rmSync(home, { recursive: true, force: true });
  });
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(() => context.close());

  test('svc dev --open signs the browser in, by a file that only the user can read and a link that works once', async () => {
    assert.equal(ready.preview, `${originOf(gateway, NOTES)}/`);
    assert.deepEqual([statSync(dirname(opened)).mode & 0o777, statSync(opened).mode & 0o777], [0o700, 0o600]);
    const page = await context.newPage();
    await page.goto(pathToFileURL(opened).href);
    await page.getByRole('heading', { name: 'Notes' }).waitFor();
    assert.equal(new URL(page.url()).origin, originOf(gateway, NOTES));
    const [link = ''] = /http:[^"]*#link=[^"]*/.exec(readFileSync(opened, 'utf8')) ?? [];
    assert.ok(!link.includes(gateway.token));
    const another = await (await sharedChromium()).newContext();
    const late = await another.newPage();
    await late.goto(link);
    await late.getByRole('alert').filter({ hasText: 'already used' }).waitFor({ timeout: PATIENCE_MS });
    await another.close();
  });

  test('svc serve --open does so for the app that it was started with', async () => {
    const commands = join(home, 'served');
    mkdirSync(commands);
    writeFileSync(join(commands, 'xdg-open'), `#!/bin/sh\nprintf %s "$*" > '${commands}/opened'\n`, { mode: 0o755 });
    execFileSync('mkfifo', [join(commands, 'opened')]);
    const flags = ['--store', 'tarball', '--open', '--with', appFolder('guestbook'), '--with', appFolder('todos')];
    const served = new TestGateway(join(home, 'data'), flags, { PATH: `${commands}:${process.env.PATH}` });
    await served.start();
    try {
      const file = await readFile(join(commands, 'opened'), 'utf8');
      const page = await context.newPage();
      await page.goto(pathToFileURL(file).href);
      await page.getByRole('heading', { name: 'Guestbook' }).waitFor();
      assert.equal(new URL(page.url()).origin, originOf(served, { app: 'guestbook' }));
      assert.equal(await served.stop(), 0);
      assert.equal(existsSync(file), false, 'the file goes with the gateway');
    } finally {
      await served.stop();
    }
  });

  test('a preview sends a signed-out browser to the sign-in and back; a program gets a 401', async () => {
    const page = await context.newPage();
    await page.goto(`${ready.preview}?theme=dark`);
    await page.getByText(`Continue to ${ready.preview}?theme=dark`).waitFor();
    await page.getByLabel('Access token').fill(gateway.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${ready.preview}?theme=dark`);
    await page.getByRole('heading', { name: 'Notes' }).waitFor();
    const program = await gateway.call('GET', '/svc/_draft/dev-notes/notes/', { token: null });
    assert.deepEqual([program.status, program.json.error.code], [401, 'UNAUTHORIZED']);
  });

  test('the console redirects only to pages of its own gateway', async () => {
    const page = await context.newPage();
    for (const [name, value] of [
      ['open', '//evil.example'],
      ['open', 'https://evil.example'],
      ['open', '_draft/../..//evil.example'],
      ['open', '_draft//evil.example'],
      ['open', '_draft/s1/..'],
      ['open', '_draft/s1/notes/x'],
      ['open', '_draft/s1/notes\n'],
      ['open', '_apps'],
      ['open', '..'],
      ['open', 'notes?x'],
      ['enter', '//evil.example'],
      ['enter', 'https://evil.example/svc/notes/'],
      ['enter', 'javascript:alert(1)'],
      ['enter', `http://${baseOf(gateway)}.evil.example/`],
      ['enter', `http://evil${baseOf(gateway)}/`],
      ['enter', `http://${baseOf(gateway)}@evil.example/`],
      ['enter', 'http://'],
    ]) {
      await page.goto('about:blank');
      await page.goto(`${await linkTo(gateway)}&${name}=${encodeURIComponent(value as string)}`);
      await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
      assert.equal(page.url(), consoleOf(gateway), value);
    }
  });
}

function errors(gateway: TestGateway): void {
  const home = mkdtempSync(join(tmpdir(), 'svc-dev-errors-'));
  let context: BrowserContext;
  let page: Page;
  let dev: ChildProcess;
  const entries: Record<string, unknown>[] = [];
  let heard = () => {};

  /** The next entry of the log whose text this is. */
  async function entryOf(text: string | RegExp): Promise<{ page?: Record<string, unknown>; msg: string }> {
    for (;;) {
      const at = entries.findIndex(({ msg }) => (typeof text === 'string' ? msg === text : text.test(String(msg))));
      if (at >= 0) return entries.splice(at, 1)[0] as never;
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
  }

  const fault = (name: string) => page.evaluate(`faults.${name}()`);
  const placeOf = ({ page: where }: Awaited<ReturnType<typeof entryOf>>) => {
    const { kind, file, line, column } = where ?? {};
    return [kind, `${file}:${line}`, typeof column];
  };

  before(async () => {
    for (const [path, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(home, 'faulty', path)), { recursive: true });
      writeFileSync(join(home, 'faulty', path), text);
    }
    const env = { HOME: home, PATH: process.env.PATH, SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
    execFileSync(process.execPath, [SVC, 'dev', 'faulty', '--once'], { cwd: home, env, stdio: 'ignore' });
    execFileSync(process.execPath, [SVC, 'publish', 'faulty', '--workspace', FAULTY.workspace], { cwd: home, env });
    dev = spawn(process.execPath, [ENDS_WITH_PARENT, SVC, 'dev', 'faulty', '--json'], {
      cwd: home,
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    assert.ok(dev.stdout, 'its output is a pipe');
    const ready = new Promise<void>((resolve) => {
      createInterface({ input: dev.stdout as never }).on('line', (line) => {
        const event = JSON.parse(line);
        if (event.event === 'ready') resolve();
        if (event.event === 'log') entries.push(event);
        heard();
      });
    });
    await ready;
  });
  after(async () => {
    const exit = once(dev, 'exit');
    dev.kill('SIGINT');
    await exit;
    rmSync(home, { recursive: true, force: true });
  });
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    page = await context.newPage();
    const stream = page.waitForResponse(/_changes/);
    const { address } = await signBrowserIn(page, gateway, FAULTY);
    await page.goto(address);
    await page.getByRole('heading', { name: 'Faulty' }).waitFor();
    await stream;
    entries.length = 0;
  });
  afterEach(() => context.close());

  test('errors of the page are in the terminal, with file and line', { timeout: PATIENCE_MS }, async () => {
    await fault('logs');
    assert.deepEqual(placeOf(await entryOf('It is {"wrong":true}')), ['console', 'js/app.js:3', 'number']);
    await fault('throws');
    const thrown = await entryOf(/^TypeError: Cannot read properties of null/);
    assert.deepEqual(placeOf(thrown), ['error', 'js/app.js:7', 'number']);
    await fault('rejects');
    assert.deepEqual(placeOf(await entryOf('RangeError: out of it')), ['rejection', 'js/app.js:11', 'number']);
    assert.equal(await fault('asks'), 404, 'the page has its answer');
    assert.deepEqual(placeOf(await entryOf('GET data/missing.json: 404')), ['request', 'js/app.js:14', 'number']);
    await fault('embeds');
    const missing = await entryOf('<img> could not be loaded: img/none.png');
    assert.deepEqual(missing.page, { kind: 'request', file: 'index.html' });
    await fault('reaches');
    const refused = await entryOf('connect-src does not allow https://elsewhere.example/');
    assert.deepEqual(placeOf(refused), ['csp', 'js/app.js:20', 'number']);
  });

  test('an error in a loop is one line, with the number of further ones', { timeout: PATIENCE_MS }, async () => {
    await fault('loops');
    assert.deepEqual(placeOf(await entryOf('again and again')), ['console', 'js/app.js:23', 'number']);
    assert.deepEqual((await entryOf('… 312 more')).page, { kind: 'more' });
    assert.ok(!entries.some(({ msg }) => msg === 'again and again'));
  });

  test('a fault of a handler is shown over the page, until Escape', { timeout: PATIENCE_MS }, async () => {
    const violations: string[] = [];
    page.on('console', (message) => violations.push(message.text()));
    const panel = page.getByRole('alert');
    const call = () => page.evaluate(READ_BOOM);
    await call();
    await panel.waitFor();
    assert.equal(await panel.getByRole('heading').textContent(), 'boom failed');
    await panel.getByText("TypeError: Cannot read properties of null (reading 'member')").waitFor();
    await panel.getByText('lib/deep.js:2:16', { exact: true }).waitFor();
    await panel.getByText('queries/boom.js:2:28').waitFor();
    await call();
    await panel.getByText('The latest of 2 errors.').waitFor();

    await page.evaluate(`document.querySelector('dialog').showModal()`);
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    assert.ok(await page.getByText('A dialog').isVisible(), 'it closes nothing of the page');
    await page.keyboard.press('Escape');
    await page.getByText('A dialog').waitFor({ state: 'hidden' });

    await page.evaluate(`svc.write({ action: 'refuse' }).catch(() => {})`);
    await panel.getByText('RangeError: <b>not</b> today').waitFor();
    await panel.getByText('actions/refuse.js:2:9', { exact: true }).waitFor();
    await panel.getByRole('button', { name: 'Dismiss' }).click();
    await panel.waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(`svc.read({ query: 'fine' })`), 1);
    assert.deepEqual(
      violations.filter((text) => /Content Security Policy/.test(text)),
      [],
    );
  });

  test('TypeScript that is saved meanwhile runs, with the lines of its source', { timeout: PATIENCE_MS }, async () => {
    const stream = page.waitForResponse(/_changes/);
    const lines = [
      'type Wanted = {',
      '  input: { n?: number };',
      '};',
      'export default async ({ input }: Wanted): Promise<number> => {',
      "  throw new RangeError('n is ' + (input.n as number));",
      '};',
    ];
    writeFileSync(join(home, 'faulty/queries/typed.ts'), `${lines.join('\n')}\n`);
    await stream;
    await page.evaluate(`svc.read({ query: 'typed' }).catch(() => {})`);
    await page.getByText('queries/typed.ts:5:9', { exact: true }).waitFor();
  });

  test('live pages show none of this, and may not report errors to a draft', { timeout: PATIENCE_MS }, async () => {
    const live = await context.newPage();
    await live.goto(await linkTo(gateway, { app: 'faulty' }));
    await live.getByRole('heading', { name: 'Faulty' }).waitFor();
    assert.equal(await live.locator('script[src="/svc/_dev.js"]').count(), 0);
    await live.evaluate(READ_BOOM);
    const path = `/svc/_draft/${FAULTY.workspace}/faulty/_errors`;
    const body = JSON.stringify({ errors: [{ kind: 'error', message: 'from live' }] });
    const other = `${originOf(gateway, FAULTY)}${path}`;
    const send = (address: string, mode: string) =>
      live.evaluate(`svc.fetch(${JSON.stringify(address)}, { method: 'POST', body: ${JSON.stringify(body)}, mode: '${mode}' })
        .then((answer) => answer.status, () => 'refused')`);
    const statuses = [await send(path, 'cors'), await send(other, 'cors'), await send(other, 'no-cors')];
    assert.deepEqual(statuses, [403, 'refused', 'refused']);
    assert.equal((await gateway.call('POST', path, { body })).status, 403, 'nor a program');
    assert.equal((await gateway.call('POST', path, { body, token: null })).status, 401);
    assert.equal(await live.getByRole('alert').count(), 0);
    await fault('logs');
    await entryOf('It is {"wrong":true}');
    assert.ok(!entries.some(({ msg }) => msg === 'from live'));
  });
}
