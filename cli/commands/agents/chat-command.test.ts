/** `svc chat` and `svc agents` against an HTTP server that speaks the gateway's routes. */
import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  failure,
  type Reply,
  type Routes,
  type Seen,
  startGateway,
  svc,
  temporaryFolder,
} from '../../../testing/command-line.ts';
import { complete } from '../../complete.ts';
import { EXIT } from '../../failure.ts';

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
/** Sequences that move the cursor and overwrite text: only the text that a terminal shows counts here. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove.
const plain = (text: string): string => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '').replace(/[^\n]*\r/g, '');

const turn = (...events: TurnEvent[]): Reply => ({
  stream: [START, ...events, END].map(
    (event, i) => `id: ${i + 1}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  ),
  hangUp: true,
});

const WINDOWS = 'GET /svc/notes/_chat/windows?limit=500';
const CONVERSATIONS = 'GET /_svc-conversations/apps/notes/sessions?limit=500';
const NO_GIT_STORE = failure(409, 'NO_GIT_STORE', 'This needs the git store.');
/** A window and a conversation about code. */
const KNOWN: Routes = {
  [WINDOWS]: { json: [{ windowId: 'food', mode: 'data', title: 'What is there to eat?', turns: 3, updatedAt: 1 }] },
  [CONVERSATIONS]: { json: [{ conversationId: 'list', title: 'Group the list', counts: { turns: 2 }, updatedAt: 2 }] },
};

/** A gateway with the git store, unless `routes` say otherwise. */
async function gatewayWith(t: TestContext, routes: Routes) {
  return startGateway(t, { [WINDOWS]: { json: [] }, [CONVERSATIONS]: { json: [] }, ...routes });
}

const bodiesOf = (seen: Seen[], path: string) =>
  seen.filter((call) => call.path === path && call.method === 'POST').map(({ body }) => JSON.parse(body.toString()));

test('a message as argument: the answer goes to stdout; tools and how to continue go to stderr', async (t) => {
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
  assert.equal(notes[3], 'Continue: svc chat notes --window w1');
  assert.deepEqual(bodiesOf(seen, '/svc/notes/_chat'), [
    { windowId: 'w1', message: 'add milk', runner: 'codex', model: 'gpt-5' },
  ]);
});

test('an agent can build an app that only a workspace has', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    [WINDOWS]: failure(404, 'UNKNOWN_APP', 'No app is registered as "notes".'),
    'POST /svc/notes/_turn': turn({ type: 'final', text: 'Built.' }),
  });
  const { code, stdout, stderr } = await svc(['chat', 'notes', 'Build it', '--mode', 'full'], { env });
  assert.deepEqual([code, stdout], [EXIT.ok, 'Built.\n'], stderr);
  assert.equal(bodiesOf(seen, '/svc/notes/_turn')[0].message, 'Build it');
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

test('on a terminal each line is a message of one window, an error is printed, and the end of the input ends the chat', async (t) => {
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
  assert.match(
    plain(stderr),
    /✗ NO_RUNNER: No agent was found\.\n {2}See which agents there are, and how to get one: svc agents/,
  );
  const bodies = bodiesOf(seen, '/svc/notes/_chat');
  assert.deepEqual(
    bodies.map(({ message }) => message),
    ['one', 'two', 'three'],
  );
  assert.equal(new Set(bodies.map(({ windowId }) => windowId)).size, 1);
});

test('a permission is asked with numbered options, again until one of the numbers is typed', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': turn(PERMISSION),
    [`POST ${TURN}/permissions/r1`]: { json: {} },
  });
  const { stderr } = await svc(['chat', 'notes', 'clean up', '--window', 'w1'], { env, tty: true, stdin: '9\n1\n' });
  assert.match(plain(stderr), /\? shell rm -rf build\n {2}1 Allow\n {2}2 Never\n {2}3 Not now\n/);
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), [{ optionId: 'yes' }]);
});

test('an answer from elsewhere is printed: by a policy, by another client, or none', async (t) => {
  const result = (members: object) => ({ type: 'permission.result', requestId: 'r1', ...members }) as TurnEvent;
  const replies = [
    turn({ ...PERMISSION, optionId: null }, result({ optionId: null, ok: false })),
    turn(PERMISSION, result({ optionId: 'yes', ok: true })),
    turn(PERMISSION, result({ optionId: null, ok: false })),
  ];
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': () => replies.shift() as Reply,
    [`POST ${TURN}/permissions/r1`]: failure(409, 'CONFLICT', 'This was answered before.'),
  });
  const words = ['chat', 'notes', 'clean up', '--window', 'w1'];
  assert.match((await svc(words, { env })).stderr, /^✗ shell rm -rf build: refused, by policy$/m);
  for (const text of [/^✓ shell rm -rf build: Allow$/m, /^✗ shell rm -rf build: no answer, refused$/m])
    assert.match(plain((await svc(words, { env, tty: true })).stderr), text);
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), []);
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
  assert.match(stderr, /^✓ shell rm -rf build: Allow, by policy$/m);
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), []);
});

test('without a terminal the answer is no, once', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_chat': turn(PERMISSION),
    [`POST ${TURN}/permissions/r1`]: failure(404, 'UNKNOWN_PERMISSION', 'It was answered.'),
  });
  const { code, stderr } = await svc(['chat', 'notes', 'clean up', '--window', 'w1'], { env });
  assert.equal(code, EXIT.ok);
  assert.match(stderr, /shell rm -rf build: refused, because there is no terminal/);
  await svc(['chat', 'notes', 'clean up', '--window', 'w1', '--json'], { env });
  assert.deepEqual(bodiesOf(seen, `${TURN}/permissions/r1`), [{ optionId: 'no' }, { optionId: 'no' }]);
});

test('after a turn that fails, is stopped or breaks off, the command exits with 1 or 3 and says why', async (t) => {
  const replies: Reply[] = [
    turn({ type: 'error', code: 'AGENT_FAILED', message: 'It is not signed in.' }),
    turn({ type: 'aborted' }),
    { stream: [`data: ${JSON.stringify(START)}\n\n`], hangUp: true },
  ];
  const { env } = await gatewayWith(t, { 'POST /svc/notes/_chat': () => replies.shift() as Reply });
  const failed = await svc(['chat', 'notes', 'hi'], { env });
  assert.equal(failed.code, EXIT.failed);
  assert.match(
    failed.stderr,
    /✗ AGENT_FAILED: It is not signed in\.\n {2}See whether the agent is signed in: svc agents/,
  );
  const stopped = await svc(['chat', 'notes', 'hi'], { env });
  assert.deepEqual([stopped.code, /■ stopped/.test(stopped.stderr)], [EXIT.failed, true]);
  const broken = await svc(['chat', 'notes', 'hi', '--window', 'w1'], { env });
  assert.equal(broken.code, EXIT.unreachable);
  assert.match(broken.stderr, /✗ The gateway ended before the turn did\.\n {2}.*--window w1/);
});

test('mode full: prints the changed files, and how to look at them and publish', async (t) => {
  const events: TurnEvent[] = [
    { type: 'file', path: 'index.html', status: 'changed' },
    { type: 'file', path: 'app.css', status: 'added' },
    { type: 'file', path: 'index.html', status: 'changed' },
  ];
  const started: TurnEvent = { ...START, sessionId: 's1' } as TurnEvent;
  const pending = [{ ownerApp: 'notes', automationId: 'inbox' }];
  const { env, seen } = await gatewayWith(t, {
    'POST /svc/notes/_turn': turn(started, ...events, { type: 'webhooks', minted: [], pending }),
  });
  const { stderr } = await svc(['chat', 'notes', 'Group the list', '--mode', 'full', '--window', 'w1'], { env });
  assert.match(stderr, /^Publishing creates the webhook of notes\/inbox/m);
  assert.match(stderr, /\n {2}changed {2}index\.html\n {2}added {4}app\.css\nWhat changed: /);
  for (const command of ['svc diff', 'svc open', 'svc publish'])
    assert.ok(stderr.includes(`${command} notes --workspace s1`), stderr);
  assert.match(stderr, /^Continue: svc chat notes --window w1$/m);
  assert.deepEqual(bodiesOf(seen, '/svc/notes/_turn'), [
    { conversationId: 'w1', message: 'Group the list', attachments: [] },
  ]);
});

test('mode full on the tarball store is refused by the gateway', async (t) => {
  const { env, seen } = await gatewayWith(t, {
    [CONVERSATIONS]: NO_GIT_STORE,
    'POST /svc/notes/_chat': failure(409, 'MODE_UNAVAILABLE', 'There is no draft here.'),
  });
  const { code, stderr } = await svc(['chat', 'notes', 'hi', '--mode', 'full'], { env });
  assert.equal(code, EXIT.failed);
  assert.match(
    stderr,
    /MODE_UNAVAILABLE.*\n(?: {2}.*\n)* {2}Mode full needs the git store: stop the gateway and move its apps with svc convert/,
  );
  assert.equal(bodiesOf(seen, '/svc/notes/_chat')[0].mode, 'full');
});

test('a conversation about code continues by its name, in its mode', async (t) => {
  const { env, seen } = await gatewayWith(t, { ...KNOWN, 'POST /svc/notes/_turn': turn() });
  assert.equal((await svc(['chat', 'notes', 'And now?', '--window', 'list'], { env })).code, EXIT.ok);
  assert.equal(bodiesOf(seen, '/svc/notes/_turn')[0].conversationId, 'list');
  const refused = await svc(['chat', 'notes', 'And now?', '--window', 'list', '--mode', 'data'], { env });
  assert.equal(refused.code, EXIT.failed);
  assert.match(refused.stderr, /"list" is about code: its mode is full\.\n {2}Omit --window/);
  const { stdout } = await svc(['chat', 'notes', 'And now?', '--window', 'list', '--json'], { env });
  assert.deepEqual(JSON.parse(stdout.split('\n')[0] ?? ''), { type: 'conversation', conversationId: 'list' });
});

test('a conversation that was made without a message has no title, and is listed and completed', async (t) => {
  const untitled = { conversationId: 'list', title: null, counts: { turns: 0 }, updatedAt: 2 };
  const { env } = await gatewayWith(t, { [CONVERSATIONS]: { json: [untitled] } });
  const { code, stdout, stderr } = await svc(['chats', 'notes'], { env });
  assert.equal(code, EXIT.ok, stderr);
  assert.match(stdout, /^list +full +0 /m);
  const surroundings = { env, cwd: tmpdir(), platform: 'linux' } as const;
  assert.deepEqual(await complete(['chats', 'show', 'notes', 'l'], surroundings), ['list\t']);
});

test('a new name begins a conversation and lists the existing ones', async (t) => {
  const { env, seen } = await gatewayWith(t, { ...KNOWN, 'POST /svc/notes/_chat': turn() });
  const piped = await svc(['chat', 'notes', 'hi', '--window', 'foot'], { env });
  assert.equal(piped.stderr.split('\n')[0], '"foot" is a new conversation. Did you mean "food"?');
  assert.doesNotMatch(piped.stderr, /Group the list/, 'the list is for people');
  assert.equal(bodiesOf(seen, '/svc/notes/_chat')[0].windowId, 'foot');
  const { stderr } = await svc(['chat', 'notes', 'hi', '--window', 'new'], { env, tty: true, columns: 40 });
  const lines = plain(stderr).split('\n');
  assert.equal(lines[0], '"new" is a new conversation.');
  assert.match(lines[1] ?? '', /^WINDOW +BEGINS +MODE +TURNS +USED$/);
  assert.match(lines[2] ?? '', /^list +Gro.* full +2 /);
  assert.match(lines[3] ?? '', /^food +Wha.* data +3 /);
  for (const line of lines.slice(1, 4)) assert.ok(line.length <= 40, line);
  const known = await svc(['chat', 'notes', 'hi', '--window', 'food'], { env });
  assert.doesNotMatch(known.stderr, /new conversation/);
});

describe('--attach', () => {
  const PNG = Buffer.from('\x89PNG\r\n\x1a\nrest', 'latin1');
  const FILES: [name: string, type: string, bytes: string | Buffer][] = [
    ['photo.txt', 'image/png', PNG],
    ['a.jpg', 'image/jpeg', Buffer.from('\xff\xd8\xff\xe0', 'latin1')],
    ['a.gif', 'image/gif', 'GIF89a…'],
    ['a.webp', 'image/webp', 'RIFFsizeWEBPVP8 '],
    ['wish list.toml', 'text/plain', 'colour = "grün"'],
  ];

  test('images and texts are uploaded with their types, and go with the first accepted message', async (t) => {
    const cwd = temporaryFolder(t);
    for (const [name, , bytes] of FILES) writeFileSync(join(cwd, name), bytes);
    let turns = 0;
    const { env, seen } = await gatewayWith(t, {
      'POST /_svc-conversations/apps/notes/blobs': ({ body }) => ({
        status: 201,
        json: { sha256: `of ${body.length}` },
      }),
      'POST /svc/notes/_turn': () => (++turns === 1 ? failure(503, 'OVERLOADED', 'Wait.') : turn()),
    });
    const words = ['chat', 'notes', '--mode', 'full', ...FILES.flatMap(([name]) => ['--attach', name])];
    const { code, stderr } = await svc(words, { env, cwd, tty: true, stdin: 'one\ntwo\nthree\n' });
    assert.equal(code, EXIT.ok, stderr);
    const uploads = seen.filter(({ path }) => path.endsWith('/blobs'));
    assert.deepEqual(
      uploads.map(({ headers, body }) => [headers['content-type'], body.toString('latin1')]),
      FILES.map(([, type, bytes]) => [type, Buffer.from(bytes).toString('latin1')]),
    );
    const all = FILES.map(([name, , bytes]) => ({ sha256: `of ${Buffer.byteLength(bytes)}`, name }));
    assert.deepEqual(
      bodiesOf(seen, '/svc/notes/_turn').map(({ attachments }) => attachments),
      [all, all, []],
    );
  });

  test('a file that cannot be attached is reported before anything is sent', async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, 'a.txt'), 'text');
    writeFileSync(join(cwd, 'a.zip'), Buffer.from([80, 75, 0, 255]));
    writeFileSync(join(cwd, 'large'), '');
    truncateSync(join(cwd, 'large'), LIMITS.attachmentBytes + 1);
    const { env, seen } = await gatewayWith(t, KNOWN);
    const tarball = await gatewayWith(t, { [CONVERSATIONS]: NO_GIT_STORE });
    const full = ['--mode', 'full'];
    const many = Array.from({ length: LIMITS.chatAttachments + 1 }, () => ['--attach', 'a.txt']).flat();
    const cases: [words: string[], code: number, text: RegExp, env?: NodeJS.ProcessEnv][] = [
      [['--attach', 'a.txt'], EXIT.usage, /Only messages about code can have files\.\n {2}Add --mode full/],
      [
        ['--attach', 'a.txt', '--window', 'food', ...full],
        EXIT.failed,
        /Messages of "food" cannot have files\.\n {2}Begin/,
      ],
      [['--attach', 'a.txt', ...full], EXIT.failed, /needs the git store\.\n {2}.*--store git/, tarball.env],
      [['--attach', 'a.txt', '--attach', 'a.zip', ...full], EXIT.failed, /a\.zip: agents take images \(PNG/],
      [['--attach', 'large', ...full], EXIT.failed, /large is larger than 25 MiB/],
      [['--attach', 'none', ...full], EXIT.failed, /The file none cannot be read/],
      [['--attach', '.', ...full], EXIT.failed, /The file \. cannot be read/],
      [[...many, ...full], EXIT.usage, /at most 16 files/],
    ];
    for (const [words, expected, text, other = env] of cases) {
      const { code, stderr } = await svc(['chat', 'notes', 'hi', ...words], { env: other, cwd });
      assert.deepEqual([code, text.test(stderr)], [expected, true], stderr);
    }
    const sent = [...seen, ...tarball.seen].filter(({ method }) => method === 'POST');
    assert.deepEqual(sent, []);
  });
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

test('an unknown app is reported before a message is sent', async (t) => {
  const { env } = await startGateway(t, {
    'GET /svc/nots/_chat/windows?limit=500': failure(404, 'UNKNOWN_APP', 'No app is registered as "nots".'),
    'GET /_svc-conversations/apps/nots/sessions?limit=500': NO_GIT_STORE,
    'GET /svc/_apps': { json: [{ id: 'notes' }] },
  });
  const { code, stderr } = await svc(['chat', 'nots', 'hi'], { env });
  assert.equal(code, EXIT.failed);
  assert.match(stderr, /UNKNOWN_APP.*\n {2}Did you mean "notes"\?/);
});

test("an agent's text cannot control the terminal, or look like a line of the command", async (t) => {
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
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that must not occur.
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
    const { stdout, stderr } = await svc(['chat', 'notes', 'hi'], { env, tty: true, columns });
    for (const line of plain(stdout).split('\n')) assert.ok(line.length < columns, line);
    const passing = stderr.split('\r').map((line) => plain(line).split('\n')[0] ?? '');
    assert.ok(passing.includes('codex …'), stderr);
    for (const line of passing) assert.ok(line.length <= columns, line);
    const tool =
      plain(stderr)
        .split('\n')
        .find((line) => line.includes('✓')) ?? '';
    assert.ok(tool.length <= columns && tool.endsWith('… ✓'), tool);
  });
}

test('svc agents: the agents with their models, how to sign in, and which are missing', async (t) => {
  const status = {
    codexAvailable: true,
    codexVersion: '0.169.0',
    codexModels: [{ id: 'gpt-5', name: 'GPT-5', isDefault: true }],
    codexModelsStatus: 'fresh',
    'claude-codeAvailable': true,
    'claude-codeKind': 'claude-code',
    'claude-codeDetail': 'Nobody is signed in to it.',
    'claude-codeVersion': '2.1.329',
    'claude-codeModels': [],
    'claude-codeSignedIn': false,
    newAvailable: true,
    newModels: [],
    newEnforcesData: false,
    localAvailable: true,
    localModels: [],
    localDetail: 'The model server does not tell its models.',
    geminiAvailable: false,
    geminiVersion: null,
    geminiDetail: 'There is no program gemini.',
    oldAvailable: false,
    oldVersion: '2.1.197',
    oldDetail: 'This is Claude Code 2.1.197; 2.1.329 or newer is needed.',
    oldModelsStatus: 'cold',
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
    '✓ new',
    '  Its models are not known yet: svc agents --refresh',
    '  For the console and tokens for "all" only: it does not enforce mode "data"',
    '! local',
    '  The model server does not tell its models.',
    '– gemini not found',
    '  There is no program gemini.',
    '! old 2.1.197',
    '  This is Claude Code 2.1.197; 2.1.329 or newer is needed.',
  ]);
  assert.deepEqual(JSON.parse((await svc(['agents', '--json'], { env })).stdout), status);
  const none = await svc(['agents', '--refresh'], { env });
  assert.match(none.stderr, /No agent was found.*\n.*npm install -g @openai\/codex/);
});

test('svc agents: waits until the gateway has heard from the agents that are there', async (t) => {
  const { env } = await startGateway(t, {
    'GET /svc/_agents/status': { json: { codexAvailable: true, codexModelsStatus: 'loading' } },
    'GET /svc/_agents/status?refresh=1': {
      json: { codexAvailable: true, codexKind: 'codex', codexModelsStatus: 'ready', codexSignedIn: false },
    },
  });
  assert.match((await svc(['agents'], { env })).stdout, /^! codex\n {2}Not signed in/);
});
