// The whole tree with real processes: a writer, a handler host, and the threads of an app and its automations. Needs dist/.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { automationRef } from '../../protocol/automations/automation.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { ToolKind } from '../../protocol/wire/frames.ts';
import { ADMIN_CALLER } from '../../protocol/wire/handler-caller.ts';
import { treeIn } from '../../testing/tree.ts';
import type { Actor } from './actor/actor.ts';
import { Call, type CallReply } from './actor/call.ts';
import type { Tree } from './tree.ts';

const FIRES = {
  count: 'globalThis.n = (globalThis.n ?? 0) + 1; return { output: [n, await ctx.state.get("k")] };',
  wait: 'log.info("waiting"); return { output: await ctx.agent({ prompt: "when?" }) };',
  loop: 'await ctx.state.get("k"); for (;;);',
};

let dir: string;
let tree: Tree;
const appLines: string[] = [];

before(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'svc-tree-')));
  for (const version of ['v1', 'v2']) {
    const code = join(dir, 'apps', 'todos', version);
    for (const [id, body] of Object.entries(FIRES)) {
      write(join(code, 'automations', id, 'handler.js'), `export default async ({ ctx, log }) => { ${body} };`);
    }
    write(join(code, 'queries', 'one.js'), 'export default () => 1;');
    write(join(code, 'prepared', 'validators.js'), '');
  }
  tree = treeIn(dir, {
    paths: (app, versionId) => {
      const codeDir = join(dir, 'apps', app, versionId);
      const dataFile = join(dir, 'apps', app, 'data.sqlite');
      return { codeDir, preparedDir: join(codeDir, 'prepared'), dataFile, blobs: { own: dir, live: null } };
    },
    codeDirs: [join(dir, 'apps')],
    socketFolder: mkdtempSync(join(dir, 's')),
    callbacks: { appLog: (app, line) => void appLines.push(`${app}: ${line}`) },
  });
  await tree.start();
});
after(async () => {
  await tree.stop(0);
  rmSync(dir, { recursive: true, force: true });
});

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function version(versionId: string): VersionSummary {
  const queries = [{ name: 'one' }];
  return { versionId, name: 'Todos', version: '1.0.0', queries, actions: [] } as unknown as VersionSummary;
}

type Fire = {
  actor: Actor;
  call: Call;
  ended: Promise<string>;
  asked: Promise<(value: unknown) => void>;
  lines: string[];
};

/** Runs the automation; the test answers what it asks. */
function fire(id: keyof typeof FIRES, allowedMs = 60_000): Fire {
  const actor = tree.fireActor({ app: 'todos', id }, version('v1'));
  const automation = { ref: automationRef('todos', id), id, name: id, version: '1' };
  const body = Buffer.from(JSON.stringify({ runId: 'r', now: 1, automation }));
  const lines: string[] = [];
  let asked: (answer: (value: unknown) => void) => void = () => {};
  let ended: (outcome: string) => void = () => {};
  const reply: CallReply = {
    result: (_status, bytes) => ended(Buffer.from(bytes).toString()),
    failed: ({ code, message }) => ended(`${code}: ${message}`),
    outcomeUnknown: () => {},
    asked: (_verb, _payload, answer) => asked((value) => answer(true, Buffer.from(JSON.stringify(value)))),
    logged: (line) => void lines.push(line),
    faulted: (error) => ended(`faulted: ${error}`),
  };
  const request = { kind: ToolKind.fire, tool: id, body, traceId: 't', caller: ADMIN_CALLER, allowedMs };
  const call = new Call(request, reply, performance.now());
  const whenAsked = new Promise<(value: unknown) => void>((resolve) => {
    asked = resolve;
  });
  const whenEnded = new Promise<string>((resolve) => {
    ended = resolve;
  });
  actor.submit(call);
  return { actor, call, ended: whenEnded, asked: whenAsked, lines };
}

test('fires run in a separate thread that stays for the next one, while the app has the one place of apps', async () => {
  const app = tree.actor('todos', version('v1'));
  const answered = new Promise<string>((resolve) => {
    const reply: CallReply = {
      result: (_status, bytes) => resolve(Buffer.from(bytes).toString()),
      failed: ({ message }) => resolve(message),
      outcomeUnknown: () => {},
      faulted: () => {},
    };
    const request = {
      kind: ToolKind.query,
      tool: 'one',
      body: Buffer.alloc(0),
      traceId: 't',
      caller: ADMIN_CALLER,
      allowedMs: 60_000,
    };
    app.submit(new Call(request, reply, performance.now()));
  });
  for (const n of [1, 2]) {
    const run = fire('count');
    (await run.asked)('kept');
    assert.equal(await run.ended, JSON.stringify({ output: [n, 'kept'] }));
  }
  assert.equal(await answered, '1');
  assert.deepEqual(
    tree.actors.map(({ key, state }) => [key, state]),
    [
      ['todos', 'live'],
      ['todos/count', 'live'],
    ],
  );
});

test('a new version ends idle threads and lets running calls end on the old one', async () => {
  const run = fire('wait');
  const answer = await run.asked;
  tree.swapFires('todos', version('v2'));
  const next = fire('wait');
  assert.deepEqual(
    run.actor.generations.map(({ spec, state }) => [spec.versionId, state]),
    [['v1', 'draining']],
  );
  answer('now');
  assert.equal(await run.ended, '{"output":"now"}');
  (await next.asked)('later');
  assert.equal(await next.ended, '{"output":"later"}');
  assert.equal(next.actor.summary.versionId, 'v2');
  const [line = ''] = run.lines;
  assert.match(line, /"tool":"wait","traceId":"t","runId":"r","msg":"waiting"/);
  assert.ok(appLines.includes(`todos: ${line}`), 'the line is in the log of the app too');
  assert.match(next.lines[0] ?? '', /"versionId":"v2"/);
});

test('a fire that loops is answered when its time is up, and its thread is ended', async () => {
  const run = fire('loop', 5000);
  (await run.asked)(1);
  assert.match(await run.ended, /^HANDLER_ERROR: "loop" timed out after 5 s\./);
  const other = fire('count');
  (await other.asked)(0);
  assert.equal(await other.ended, JSON.stringify({ output: [1, 0] }));
});

test('a restart by hand replaces the threads of the automations', async () => {
  tree.restartFires('todos');
  const run = fire('count');
  (await run.asked)(0);
  assert.equal(await run.ended, JSON.stringify({ output: [1, 0] }));
});

test('an app that goes away takes its fires along', async () => {
  const run = fire('wait');
  await run.asked;
  await tree.removeFires('todos');
  assert.match(await run.ended, /the app was removed/);
  assert.deepEqual(
    tree.actors.map(({ key }) => key),
    ['todos'],
  );
});
