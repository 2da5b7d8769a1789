/** `svc chat` as people use it: the built executable, a real gateway with the scripted agent, both stores. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { gatewayOfSuite } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';
import { STUB_RUNNERS, script } from '../testing/stub-runner.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const SVC = join(root, 'bin/svc.js');
const SCRIPT = '/usr/bin/script';

type Outcome = { code: number | null; stdout: string; stderr: string };

/** A command that runs; `said` resolves when its output has `text`. */
function start(gateway: TestGateway, argv: string[], { input = '', terminal = false } = {}) {
  const env = {
    PATH: process.env.PATH,
    HOME: gateway.dataDir,
    SVC_URL: gateway.url,
    SVC_TOKEN: gateway.token,
    TERM: 'xterm',
    NO_COLOR: '1',
  };
  const words = [process.execPath, SVC, ...argv];
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const [command = '', ...args] = terminal ? [SCRIPT, '-qec', `exec ${quoted}`, '/dev/null'] : words;
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const output = { stdout: '', stderr: '' };
  /** Where the next text is looked for: behind the last one. */
  let from = 0;
  let heard = () => {};
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk) => {
      output[name] += chunk;
      heard();
    });
  if (!terminal) child.stdin.end(input);
  const ended = inTime(once(child, 'close'), `the end of svc ${argv.join(' ')}`, LONG_MS).then(
    ([code]): Outcome => ({ code, ...output }),
  );
  const said = (text: string) =>
    inTime(
      new Promise<void>((resolve) => {
        heard = () => {
          const at = `${output.stdout}${output.stderr}`.indexOf(text, from);
          if (at < 0) return;
          from = at + text.length;
          heard = () => {};
          resolve();
        };
        heard();
      }),
      `"${text}" of svc ${argv.join(' ')}`,
      LONG_MS,
    );
  return { child, ended, said };
}

const svc = (gateway: TestGateway, argv: string[], options = {}) => start(gateway, argv, options).ended;
const window = async (gateway: TestGateway, id: string) =>
  (await gateway.call('GET', '/svc/todos/_chat/windows')).json.find((one: { windowId: string }) => one.windowId === id);
const states = async (gateway: TestGateway, id: string): Promise<string[]> =>
  (await gateway.call('GET', `/svc/todos/_chat/windows/${id}/history`)).json
    .filter(({ kind }: { kind: string }) => kind === 'user')
    .map(({ state }: { state: string }) => state);

const skip =
  existsSync(SCRIPT) || process.env.CI === 'true' ? false : `There is no ${SCRIPT} here, which gives a terminal.`;

function testMessages(gateway: TestGateway): void {
  test('a message, another one in the same window, and the events', async () => {
    const first = await svc(gateway, [
      'chat',
      'todos',
      script('call add {"title": "Milk"}', 'say Done.'),
      '--window',
      'w1',
    ]);
    assert.equal(first.code, 0, first.stderr);
    assert.equal(first.stdout, 'Done.\n');
    assert.match(first.stderr, /^⚙ add \{"title":"Milk"\} ✓$/m);
    assert.match(first.stderr, /^Continue: svc chat todos --window w1$/m);
    assert.match((await gateway.read('todos', 'list')).text, /Milk/);
    const second = await svc(gateway, ['chat', 'todos', '--window', 'w1', '--json'], {
      input: script('prompts', 'say Prompt {result}.'),
    });
    const events = second.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      [events[0], events[1].type, events.at(-1)],
      [{ type: 'window', windowId: 'w1' }, 'assistant.start', { type: 'end' }],
    );
    assert.equal(
      events.find(({ type }) => type === 'final')?.text,
      'Prompt 2.',
      'the agent continues the conversation',
    );
    assert.equal((await window(gateway, 'w1')).turns, 2);
  });
}

describe('svc chat on the tarball store', () => {
  const gateway = gatewayOfSuite({ store: 'tarball', apps: ['todos'], config: STUB_RUNNERS });

  testMessages(gateway);

  test('failures and refusals, and the agents that there are', async () => {
    const failed = await svc(gateway, ['chat', 'todos', 'fail It rains.']);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /✗ AGENT_FAILED: .*It rains\./);
    const unknown = await svc(gateway, ['chat', 'todos', 'hi', '--runner', 'nobody']);
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /nobody/);
    const refused = await svc(gateway, ['chat', 'todos', script('ask wipe it', 'say It was {result}.')]);
    assert.equal(refused.stdout, 'It was rejected.\n');
    const { stdout } = await svc(gateway, ['agents']);
    assert.match(stdout, /^✓ stub .*\n {2}stub-small {2}Small/);
    const full = await svc(gateway, ['chat', 'todos', 'hi', '--mode', 'full']);
    assert.equal(full.code, 1);
    assert.match(full.stderr, /✗ MODE_UNAVAILABLE: .*\n(?: {2}.*\n)* {2}Mode full needs the git store/);
  });

  test('Ctrl-C stops the turn, and the command says so', async () => {
    const running = start(gateway, ['chat', 'todos', script('say I begin.', 'hang'), '--window', 'stopped']);
    await running.said('I begin.');
    running.child.kill('SIGINT');
    const { code, stderr } = await running.ended;
    assert.equal(code, 1);
    assert.match(stderr, /■ stopped/);
    assert.deepEqual(await states(gateway, 'stopped'), ['aborted']);
    const again = start(gateway, ['chat', 'todos', script('say I begin.', 'hang'), '--window', 'stopped']);
    await again.said('I begin.');
    again.child.kill('SIGKILL');
    await again.ended;
    const next = await svc(gateway, ['chat', 'todos', 'say Next.', '--window', 'stopped']);
    assert.equal(next.stdout, 'Next.\n', 'a turn ends with the command that began it');
    assert.deepEqual(await states(gateway, 'stopped'), ['aborted', 'aborted', 'ok']);
  });

  test('after a gateway is killed, the command says so, and the next message works', async () => {
    const running = start(gateway, ['chat', 'todos', script('say I begin.', 'hang'), '--window', 'killed']);
    await running.said('I begin.');
    await gateway.kill();
    const { code, stderr } = await running.ended;
    assert.equal(code, 3, stderr);
    await gateway.start();
    const next = await svc(gateway, ['chat', 'todos', 'say Next.', '--window', 'killed']);
    assert.equal(next.stdout, 'Next.\n', next.stderr);
    assert.deepEqual(await states(gateway, 'killed'), ['interrupted', 'ok']);
  });

  test('on a terminal: lines are messages, questions have numbers, Ctrl-C stops, Ctrl-D ends the command', {
    skip,
  }, async () => {
    const talk = start(gateway, ['chat', 'todos', '--window', 'terminal'], { terminal: true });
    await talk.said('Ctrl-D ends the command');
    talk.child.stdin.write('ask wipe the cache\r');
    await talk.said('2 No');
    talk.child.stdin.write('1\r');
    await talk.said('stub · ');
    talk.child.stdin.write('say It ends.\r');
    await talk.said('  It ends.');
    await talk.said(' · ');
    talk.child.stdin.write('hang\r');
    await talk.said('stub …');
    talk.child.stdin.write('\u0003');
    await talk.said('■ stopped');
    // The end of the input counts once a line is asked for.
    await talk.said('› ');
    talk.child.stdin.write('\u0004');
    const { code, stdout } = await talk.ended;
    assert.equal(code, 0, stdout);
    assert.match(stdout, /Continue: svc chat todos --window terminal/);
    assert.deepEqual(await states(gateway, 'terminal'), ['ok', 'ok', 'aborted']);
  });
});

describe('svc chat on the git store', () => {
  const gateway = gatewayOfSuite({ store: 'git', apps: ['todos'], config: STUB_RUNNERS });

  testMessages(gateway);

  test('mode full: prints the changed files, and its printed commands work', async () => {
    const { code, stderr } = await svc(gateway, [
      'chat',
      'todos',
      script('edit index.html <h1>Errands</h1>', 'say Renamed.'),
      '--mode',
      'full',
    ]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^ {2}changed {2}index\.html$/m);
    const commands = [...stderr.matchAll(/: svc (.*)$/gm)].map(([, words = '']) => words.split(' '));
    assert.deepEqual(
      commands.map(([name]) => name),
      ['diff', 'open', 'publish', 'chat'],
    );
    const [diff = [], open = [], publish = []] = commands;
    assert.match((await svc(gateway, diff)).stdout, /\+<h1>Errands<\/h1>/);
    assert.equal((await svc(gateway, open)).code, 0);
    assert.match((await svc(gateway, publish)).stdout, /todos\/v2 is live/);
  });

  test('a message about code can have files, and can continue a conversation of the console', async () => {
    const file = join(gateway.dataDir, 'wish.toml');
    writeFileSync(file, 'colour = "green"');
    await gateway.call('POST', '/_svc-conversations/apps/todos/sessions', {
      body: { conversationId: 'plan', title: 'A plan' },
    });
    const words = ['chat', 'todos', script('heard', 'say {result}'), '--window', 'plan', '--attach', file];
    const { code, stdout, stderr } = await svc(gateway, words);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /colour = "green"/);
    const { json } = await gateway.call('GET', '/_svc-conversations/apps/todos/sessions/plan');
    assert.equal(json.messages[0].attachments[0].name, 'wish.toml');
    assert.match(stderr, /^Continue: svc chat todos --window plan$/m);
  });
});
