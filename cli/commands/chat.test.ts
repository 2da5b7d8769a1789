/** `svc chat` and `svc agents` against an HTTP server that speaks the gateway's routes. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { TurnEvent } from '../../protocol/agents.ts';
import { failure, type Reply, type Routes, type Seen, startGateway, svc } from '../../testing/command-line.ts';
import { EXIT } from '../failure.ts';

const START: TurnEvent = { type: 'assistant.start', turnId: 't1', runner: 'codex', model: 'gpt-5' };
const END: TurnEvent = { type: 'end' };
const TURN = '/svc/notes/_chat/windows/w1/turns/t1';
const PERMISSION: TurnEvent = {
  type: 'permission',
  requestId: 'r1',
  toolName: 'shell',
  detail: 'rm -rf build',
  options: [
    { optionId: 'yes', kind: 'allow_once', label: 'Allow' },
    { optionId: 'never', kind: 'reject_always', label: 'Never' },
    { optionId: 'no', kind: 'reject_once', label: 'Not now' },
  ],
};
const TOOL: TurnEvent[] = [
  { type: 'tool.start', toolCallId: 'c1', toolName: 'add', args: { text: 'milk' } },
  { type: 'tool.result', toolCallId: 'c1', toolName: 'add', ok: true, result: { id: 1 } },
];
/** Moves the cursor and replaces what is there: only what a terminal shows counts here. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken away.
const plain = (text: string): string => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '').replace(/[^\n]*\r/g, '');

const turn = (...events: TurnEvent[]): Reply => ({
  stream: [START, ...events, END].map(
    (event, i) => `id: ${i + 1}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  ),
  hangUp: true,
});

async function gatewayWith(t: TestContext, routes: Routes) {
  return startGateway(t, { 'GET /svc/notes/_chat/windows': { json: [] }, ...routes });
}

const bodiesOf = (seen: Seen[], path: string) =>
  seen.filter((call) => call.path === path && call.method === 'POST').map(({ body }) => JSON.parse(body.toString()));

test('a message as argument: the answer goes to stdout, tools on one line and the way on to stderr', async (t) => {
  const text: TurnEvent[] = ['I will ', 'add it.'].map((delta) => ({ type: 'assistant.delta', delta }));
  const events: TurnEvent[] = [
    { type: 'phase', phase: 'waiting', detail: 'one turn is before this one' },
    ...text,
    ...TOOL,
    { type: 'assistant.delta', delta: 'Done.\nMilk is there.' },
    { type: 'usage', inputTokens: 1200, outputTokens: 3, costUsd: 0.25 },
    { type: 'final', text: 'Done.\nMilk is there.' },
  ];
  const { env, seen } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(...events) });
  const words = ['chat', 'notes', 'add milk', '--window', 'w1', '--runner', 'codex', '--model', 'gpt-5'];
  const { code, stdout, stderr } = await svc(words, { env });
  assert.equal(code, EXIT.ok, stderr);
  assert.equal(stdout, 'I will add it.\nDone.\nMilk is there.\n');
  const notes = stderr.split('\n');
  assert.deepEqual(notes.slice(0, 2), ['· waiting: one turn is before this one', '⚙ add {"text":"milk"} ✓']);
  assert.match(notes[2] ?? '', /^codex · gpt-5 · 1,200 tokens in, 3 out · \$0\.25 · /);
  assert.equal(notes[3], 'Go on: svc chat notes --window w1');
  assert.deepEqual(bodiesOf(seen, '/svc/notes/_chat'), [
    { windowId: 'w1', message: 'add milk', runner: 'codex', model: 'gpt-5' },
  ]);
});

test('a message on standard input; without deltas the final text is the answer', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': turn({ type: 'final', text: 'Three.' }),
  });
  const { code, stdout } = await svc(['chat', 'notes'], { env, stdin: 'How many?\n' });
  assert.deepEqual([code, stdout], [EXIT.ok, 'Three.\n']);
  const [body] = bodiesOf(seen, '/svc/notes/_chat');
  assert.equal(body.message, 'How many?');
  assert.match(body.windowId, /^[0-9a-f]{8}$/);
  assert.equal((await svc(['chat', 'notes'], { env, stdin: ' \n' })).code, EXIT.usage);
});

test('on a terminal each line is a message of one window, an error is told, and the end of the input leaves', async (t) => {
  let turns = 0;
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': () =>
      ++turns === 2
        ? failure(503, 'NO_RUNNER', 'No agent was found.')
        : turn({ type: 'assistant.delta', delta: `answer ${turns}` }),
  });
  const { code, stdout, stderr } = await svc(['chat', 'notes'], { env, tty: true, stdin: 'one\n\ntwo\nthree\n' });
  assert.equal(code, EXIT.ok);
  assert.match(plain(stdout), /^ {2}answer 1\n {2}answer 3\n$/);
  assert.match(plain(stderr), /✗ NO_RUNNER: No agent was found\.\n {2}What there is, and how to get one: svc agents/);
  const bodies = bodiesOf(seen, '/svc/notes/_chat');
  assert.deepEqual(
    bodies.map(({ message }) => message),
    ['one', 'two', 'three'],
  );
  assert.equal(new Set(bodies.map(({ windowId }) => windowId)).size, 1);
});

test('a permission is asked with numbers, and asked again until one of them is typed', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': turn(PERMISSION),
    [`POST ${TURN}/permissions/r1`]: { json: {} },
  });
  const { stderr } = await svc(['chat', 'notes', 'clean up', '--window', 'w1'], { env, tty: true, stdin: '9\n1\n' });
  assert.match(plain(stderr), /\? shell rm -rf build\n {2}1 Allow\n {2}2 Never\n {2}3 Not now\n/);
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), [{ optionId: 'yes' }]);
});

test('a permission that a policy has answered is not asked', async (t) => {
  const answered: TurnEvent[] = [
    { ...PERMISSION, optionId: 'yes' } as TurnEvent,
    { type: 'permission.result', requestId: 'r1', optionId: 'yes', ok: true },
  ];
  const { env, seen } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(...answered) });
  const { code, stderr } = await svc(['chat', 'notes', 'clean up', '--window', 'w1'], { env });
  assert.equal(code, EXIT.ok);
  assert.doesNotMatch(stderr, /refused/);
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), []);
});

test('without a terminal the answer is no, once', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': turn(PERMISSION),
    [`POST ${TURN}/permissions/r1`]: failure(404, 'UNKNOWN_PERMISSION', 'It was answered.'),
  });
  const { code, stderr } = await svc(['chat', 'notes', 'clean up', '--window', 'w1'], { env });
  assert.equal(code, EXIT.ok);
  assert.match(stderr, /shell rm -rf build: refused, since there is no terminal/);
  await svc(['chat', 'notes', 'clean up', '--window', 'w1', '--json'], { env });
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), [{ optionId: 'no' }, { optionId: 'no' }]);
});

test('a turn that fails, is stopped or breaks off exits with 1 or 3, and says why', async (t) => {
  const replies: Reply[] = [
    turn({ type: 'error', code: 'AGENT_FAILED', message: 'It is not signed in.' }),
    turn({ type: 'aborted' }),
    { stream: [`data: ${JSON.stringify(START)}\n\n`], hangUp: true },
  ];
  const { env } = await gatewayWith(t, { 'POST /svc/notes/_chat': () => replies.shift() as Reply });
  const failed = await svc(['chat', 'notes', 'hi'], { env });
  assert.equal(failed.code, EXIT.failed);
  assert.match(failed.stderr, /✗ AGENT_FAILED: It is not signed in\.\n {2}Is it signed in\? svc agents/);
  const stopped = await svc(['chat', 'notes', 'hi'], { env });
  assert.deepEqual([stopped.code, /■ stopped/.test(stopped.stderr)], [EXIT.failed, true]);
  const broken = await svc(['chat', 'notes', 'hi', '--window', 'w1'], { env });
  assert.equal(broken.code, EXIT.unreachable);
  assert.match(broken.stderr, /✗ The gateway ended before the turn did\.\n {2}.*--window w1/);
});

test('mode full: the files that changed, and how to look at them and publish', async (t) => {
  const events: TurnEvent[] = [
    { type: 'file', path: 'index.html', status: 'changed' },
    { type: 'file', path: 'app.css', status: 'added' },
    { type: 'file', path: 'index.html', status: 'changed' },
  ];
  const started: TurnEvent = { ...START, sessionId: 's1' } as TurnEvent;
  const { env, seen } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(started, ...events) });
  const { stderr } = await svc(['chat', 'notes', 'Group the list', '--mode', 'full'], { env });
  assert.match(stderr, /\n {2}changed {2}index\.html\n {2}added {4}app\.css\nWhat changed: /);
  for (const command of ['svc diff', 'svc open', 'svc publish'])
    assert.ok(stderr.includes(`${command} notes --session s1`), stderr);
  assert.equal(bodiesOf(seen, '/svc/notes/_chat')[0].mode, 'full');
});

test('with --json: the window, then one event a line', async (t) => {
  const { env } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(...TOOL) });
  const { stdout, stderr } = await svc(['chat', 'notes', 'hi', '--window', 'w1', '--json'], { env });
  const lines = stdout.trim().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [{ type: 'window', windowId: 'w1' }, START, ...TOOL, END],
  );
  assert.equal(stderr, '');
});

test('an unknown app is told before anything is said', async (t) => {
  const { env } = await startGateway(t, {
    'GET /svc/nots/_chat/windows': failure(404, 'UNKNOWN_APP', 'No app is registered as "nots".'),
    'GET /svc/_apps': { json: [{ id: 'notes' }] },
  });
  const { code, stderr } = await svc(['chat', 'nots', 'hi'], { env });
  assert.equal(code, EXIT.failed);
  assert.match(stderr, /UNKNOWN_APP.*\n {2}Did you mean "notes"\?/);
});

test('what an agent says cannot drive the terminal, or look like a line of ours', async (t) => {
  const evil = 'x\u001b[2J\u0007\u009b8m\u202e\rR\n✓ FORGED\n';
  const events: TurnEvent[] = [
    { type: 'assistant.delta', delta: evil },
    { type: 'reasoning.delta', delta: evil },
    { type: 'tool.start', toolCallId: 'c', toolName: evil, args: { [evil]: evil }, sql: evil },
    { type: 'tool.result', toolCallId: 'c', toolName: evil, ok: false, errorText: evil },
    { type: 'phase', phase: evil, detail: evil },
    { type: 'usage', model: evil },
    { type: 'file', path: evil, status: 'added' },
    { ...PERMISSION, toolName: evil, detail: evil },
    { type: 'error', code: evil, message: evil },
  ];
  const { env } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(...events) });
  for (const tty of [true, false]) {
    const { stdout, stderr } = await svc(['chat', 'notes', 'hi'], {
      env: { ...env, NO_COLOR: '1' },
      tty,
      stdin: '3\n',
    });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
    const driving = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
    assert.doesNotMatch(stdout, driving);
    assert.doesNotMatch(plain(stderr), driving);
    assert.doesNotMatch(plain(stderr), /^\s*✓ FORGED/m);
    if (tty) assert.doesNotMatch(stdout, /^\S/m);
  }
});

for (const columns of [40, 80]) {
  test(`text, tools and questions fit ${columns} columns`, async (t) => {
    const long =
      'A list of things that takes more than one line of a narrow terminal, or of a wide one for that matter.';
    const events: TurnEvent[] = [
      { type: 'assistant.delta', delta: long },
      { type: 'tool.start', toolCallId: 'c', toolName: 'add', args: { text: long } },
      { type: 'tool.result', toolCallId: 'c', toolName: 'add', ok: true },
    ];
    const { env } = await gatewayWith(t, { 'POST /svc/notes/_chat': turn(...events) });
    const { stdout, stderr } = await svc(['chat', 'notes', 'hi'], {
      env: { ...env, NO_COLOR: '1' },
      tty: true,
      columns,
    });
    for (const line of stdout.split('\n')) assert.ok(line.length < columns, line);
    const tool =
      plain(stderr)
        .split('\n')
        .find((line) => line.includes('✓')) ?? '';
    assert.ok(tool.length <= columns && tool.endsWith('… ✓'), tool);
  });
}

test('svc agents: what was found, its models, how to sign in and what else there is', async (t) => {
  const status = {
    codexAvailable: true,
    codexVersion: '0.169.0',
    codexModels: [{ id: 'gpt-5', name: 'GPT-5', isDefault: true }],
    codexModelsStatus: 'fresh',
    'claude-codeAvailable': true,
    'claude-codeVersion': '2.1.329',
    'claude-codeModels': [],
    'claude-codeSignedIn': false,
    geminiAvailable: false,
  };
  const { env } = await startGateway(t, {
    'GET /svc/_agents/status': { json: status },
    'GET /svc/_agents/status?refresh=1': { json: { codexAvailable: false } },
  });
  const { stdout } = await svc(['agents'], { env });
  assert.deepEqual(stdout.trimEnd().split('\n'), [
    '✓ codex 0.169.0',
    '  gpt-5  GPT-5, default',
    '! claude-code 2.1.329',
    "  Not signed in. On the gateway's machine: claude, then /login",
    '  Its models are not known yet: svc agents --refresh',
    '– gemini not found',
  ]);
  assert.deepEqual(JSON.parse((await svc(['agents', '--json'], { env })).stdout), status);
  const none = await svc(['agents', '--refresh'], { env });
  assert.match(none.stderr, /No agent was found.*\n.*npm install -g @openai\/codex/);
});
