/** What `window.svc` does in a page, wherever that is: at the gateway, and in a host of MCP Apps. One file of cases for both bridges. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appOf } from '../../testing/apps.ts';
import type { AppFiles } from '../../testing/published.ts';
import { eventually } from '../../testing/waiting.ts';
import { PATIENCE_MS } from './template-app.ts';

const ADD = "({ db, body }) => db.run('INSERT INTO notes (text) VALUES (?)', body.text)";

/** The app of the cases. */
export const BRIDGE_APP: AppFiles = appOf('bridge', {
  manifest: {
    name: 'Bridge',
    knobs: [
      {
        key: 'size',
        label: 'Size',
        type: 'segmented',
        default: 'small',
        options: [
          { value: 'small', label: 'Small' },
          { value: 'large', label: 'Large' },
        ],
      },
    ],
  },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: {
    list: "({ db, input }) => db.all('SELECT text FROM notes WHERE text LIKE ? ORDER BY id', (input.prefix ?? '') + '%')",
    broken: '() => { throw new Error("no luck"); }',
    both: '() => "query"',
  },
  actions: {
    add: {
      run: `async (ctx) => { await (${ADD})(ctx); return { status: 201, body: { added: ctx.body.text } }; }`,
      input: { type: 'object', properties: { text: { type: 'string', minLength: 1 } }, required: ['text'] },
      writes: ['notes'],
    },
    refuse: '() => ({ status: 409, body: { code: "TAKEN", message: "It is taken.", path: "/text", more: 1 } })',
    plain: '() => ({ status: 418, body: "tea" })',
    both: '() => ({ body: "action" })',
  },
  files: {
    'index.html':
      '<!doctype html><html><head><meta charset="utf-8"><title>Bridge</title><link rel="stylesheet" href="app.css"><script type="module" src="app.js"></script></head><body><h1>Bridge</h1></body></html>',
    'app.css': '[data-size="large"] h1 { font-size: 40px } h1 { font-size: 20px }',
    'app.js': "import { greet } from './lib.js';\nwindow.greeting = greet();\n",
    'lib.js': "export const greet = () => 'hello';\n",
  },
});

const code = (body: string): string => `(async () => { const { svc } = window; ${body} })()`;
/** What a call is refused with, of what both bridges know. */
const REFUSED =
  '.then((value) => ({ value }), (error) => JSON.parse(JSON.stringify({ name: error.name, message: error.message, code: error.code, path: error.path, body: error.body })))';

type Evaluating = { evaluate(script: string): Promise<unknown> };

/** Resolves once an expression is true in a page, whose policy may not let the browser itself wait for a text. */
export async function until(page: Evaluating, expression: string): Promise<void> {
  assert.ok(await eventually(PATIENCE_MS, () => page.evaluate(expression)), expression);
}

/**
 * `open` gives a page of `BRIDGE_APP`, the same one each time; `own` begins the notes of this page, which others of the app have too.
 */
export function bridgeCases(own: string, open: () => Promise<Evaluating>): void {
  const run = async (body: string): Promise<unknown> => await (await open()).evaluate(code(body));

  test('scripts and styles of the page are there', async () => {
    const page = await open();
    await until(page, 'window.greeting === "hello"');
    assert.equal(await page.evaluate('getComputedStyle(document.querySelector("h1")).fontSize'), '20px');
  });

  test('what it is', async () => {
    assert.deepEqual(await run('return [svc.appId, svc.visitor, svc.status]'), ['bridge', false, 'online']);
  });

  test('a query and an action answer with their values', async () => {
    assert.deepEqual(await run("return svc.read({ query: 'list', input: { prefix: 'nothing' } })"), []);
    assert.deepEqual(await run(`return svc.write({ action: 'add', input: { text: '${own} one' } })`), {
      added: `${own} one`,
    });
    assert.deepEqual(await run("return svc.write({ action: 'add', input: { text: 'once' }, once: true })"), {
      added: 'once',
    });
    assert.deepEqual(await run(`return svc.read({ query: 'list', input: { prefix: '${own} one' } })`), [
      { text: `${own} one` },
    ]);
    assert.deepEqual(await run("return [await svc.read({ query: 'both' }), await svc.write({ action: 'both' })]"), [
      'query',
      'action',
    ]);
  });

  test('an action that refuses rejects with what its body says', async () => {
    assert.deepEqual(await run(`return svc.write({ action: 'refuse' })${REFUSED}`), {
      name: 'SvcError',
      code: 'TAKEN',
      message: 'It is taken.',
      path: '/text',
      body: { code: 'TAKEN', message: 'It is taken.', path: '/text', more: 1 },
    });
    assert.deepEqual(
      await run(
        "return svc.write({ action: 'plain' }).catch(({ status, code, message, body }) => [status, code, message, body])",
      ),
      [418, 'ACTION_FAILED', 'The action plain answered with status 418.', 'tea'],
    );
  });

  test('faults reject with the code of the gateway', async () => {
    const wrong = (await run(`return svc.write({ action: 'add', input: { text: '' } })${REFUSED}`)) as {
      message: string;
    };
    assert.deepEqual(
      { ...wrong, message: '' },
      { name: 'SvcError', code: 'INVALID_INPUT', message: '', path: '/text' },
    );
    assert.match(wrong.message, /fewer than 1 character/);
    assert.equal(await run("return svc.write({ action: 'add', input: {} }).catch(({ status }) => status)"), 400);
    const broken = (await run(`return svc.read({ query: 'broken' })${REFUSED}`)) as { code: string };
    assert.equal(broken.code, 'HANDLER_ERROR');
  });

  test('the app and its tools are described', async () => {
    const all = (await run('return svc.describe()')) as { app: string; queries: { name: string }[] };
    assert.deepEqual([all.app, all.queries.map(({ name }) => name)], ['bridge', ['list', 'broken', 'both']]);
    assert.deepEqual(await run("return svc.describe({ query: 'both' })"), {
      app: 'bridge',
      name: 'Bridge',
      version: '1.0.0',
      query: { name: 'both' },
    });
    const unknown = await run(`return svc.describe({ action: 'nothing' })${REFUSED}`);
    assert.deepEqual(unknown, {
      name: 'SvcError',
      code: 'UNKNOWN_ACTION',
      message: '"bridge" has no action "nothing".',
    });
  });

  test('a live query has its value now, and after a write of the page, and not after its end', async () => {
    const page = await open();
    await page.evaluate(
      code(
        `window.told = []; window.end = svc.live('list', { prefix: '${own} live' }, (list) => told.push(list.map(({ text }) => text).join()));`,
      ),
    );
    await until(page, 'told.length === 1');
    await page.evaluate(code(`await svc.write({ action: 'add', input: { text: '${own} live 1' } })`));
    await until(page, 'told.length === 2');
    await page.evaluate(code(`end(); await svc.write({ action: 'add', input: { text: '${own} live 2' } })`));
    // Another one of the same query is told the newest.
    const latest = await page.evaluate(
      code(
        `return new Promise((resolve) => { svc.live('list', { prefix: '${own} live' }, (list) => list.length === 2 && resolve(list.length)); })`,
      ),
    );
    assert.equal(latest, 2);
    assert.deepEqual(await page.evaluate('told'), ['', `${own} live 1`]);
  });

  test('a live query that fails says so', async () => {
    const failed =
      "return new Promise((resolve) => { svc.live('broken', {}, resolve, ({ name, code }) => resolve([name, code])); })";
    assert.deepEqual(await run(failed), ['SvcError', 'HANDLER_ERROR']);
    assert.match(
      String(await run("try { svc.live('list', {}) } catch (error) { return error.message }")),
      /callback is missing/,
    );
  });

  test('a write of the page is told as a change', async () => {
    const told = `return new Promise((resolve) => {
      const off = svc.onChange(({ type, app }) => { off(); resolve([['change', 'reset'].includes(type), app ?? 'bridge']); });
      void svc.write({ action: 'add', input: { text: 'told' } });
    })`;
    assert.deepEqual(await run(told), [true, 'bridge']);
  });

  test('settings have their defaults, and change at once', async () => {
    const size = "getComputedStyle(document.querySelector('h1')).fontSize";
    assert.deepEqual(await run(`return [svc.settings.size, document.documentElement.dataset.size, ${size}]`), [
      'small',
      'small',
      '20px',
    ]);
    assert.deepEqual(await run(`await svc.saveSettings({ size: 'large' }); return [svc.settings.size, ${size}]`), [
      'large',
      '40px',
    ]);
    assert.deepEqual(await run(`await svc.saveSettings({ size: null }); return [svc.settings.size, ${size}]`), [
      'small',
      '20px',
    ]);
  });
}
