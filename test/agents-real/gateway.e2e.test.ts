/**
 * Real agents behind a real daemon: their turns in windows, drafts and automations, on both edges, and after its stop and kill. A
 * program takes seconds to start, so the tests of an agent share a gateway and go on in each other's windows.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RunnerEntry } from '../../protocol/agents/agents.ts';
import { tagOf } from '../../storage/processes/tagged.ts';
import { appOf } from '../../testing/apps.ts';
import { historyOf, replay, say, send, type TurnEventSeen, turnOf, typesOf, until } from '../../testing/chat.ts';
import { BEST_EDGE } from '../../testing/edges.ts';
import { type EdgeKind, makeGateway, root, type TestGateway } from '../../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../../testing/model-stub.ts';
import { inTime, LONG_MS, pause } from '../../testing/waiting.ts';

type RealAgent = {
  name: string;
  /** Its entry in `runners`, with its model at `stub` and its home in `home`. */
  entry(stub: ModelStub, home: string): RunnerEntry;
  /** Steps of a script of the stub. */
  shell(command: string): string;
  /** The same for one that goes on in the background. */
  background(command: string): string;
  /** Whether it asks for permission to run a command. */
  asksForShell: boolean;
  writes(path: string, text: string): string;
  /** A step that asks for permission, and the file that it makes when granted. */
  asks: { step: string; file: string };
};

const program = (name: string): string => join(root, 'scripts/agents/node_modules/.bin', name);
const codexShell = (cmd: string): string => `call: exec_command ${JSON.stringify({ cmd })}`;
const codexWrites = (path: string, text: string): string =>
  codexShell(`apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${path}\n+${text}\n*** End Patch\nEOF\n`);
const claudeShell = (command: string): string => `call: Bash ${JSON.stringify({ command, description: 'A step' })}`;

const AGENTS: RealAgent[] = [
  {
    name: 'claude',
    entry: (stub, home) => ({
      kind: 'claude-code',
      command: [program('claude')],
      baseUrl: stub.url,
      apiKeyEnv: 'MODEL_KEY',
      env: { HOME: home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
    }),
    shell: claudeShell,
    background: (command) => claudeShell(`${command} > /dev/null 2>&1 & echo started`),
    asksForShell: true,
    writes: (file_path, content) => `call: Write ${JSON.stringify({ file_path, content })}`,
    asks: { step: claudeShell('echo yes > granted.txt'), file: 'granted.txt' },
  },
  {
    name: 'codex',
    entry: (stub, home) => ({
      kind: 'codex',
      command: [program('codex')],
      model: 'stub-model',
      baseUrl: `${stub.url}/v1`,
      apiKeyEnv: 'MODEL_KEY',
      // It distrusts a home below the folder for temporary files.
      env: { HOME: home, CODEX_HOME: home, TMPDIR: join(home, 'tmp') },
    }),
    shell: codexShell,
    // What a command leaves ends with it; but a command may go on.
    background: (cmd) => `call: exec_command ${JSON.stringify({ cmd, yield_time_ms: 250 })}`,
    asksForShell: false,
    writes: codexWrites,
    asks: { step: codexWrites('../granted.txt', 'yes'), file: '../granted.txt' },
  },
];

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

type Place = {
  gateway: TestGateway;
  stub: ModelStub;
  home: string;
  /** Chooses its edge, for the next start. */
  configure(edge: EdgeKind): void;
};

/** A daemon with the git store and the app `todos`, for the suite that is being defined; its one runner is this agent. */
function placeOfSuite(agent: RealAgent): () => Place {
  let place: Place;
  let end = async () => {};
  before(async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-home-'));
    mkdirSync(join(home, 'tmp'));
    const stub = await startModelStub();
    const { gateway, remove } = makeGateway({ store: 'git', apps: ['todos'], env: { MODEL_KEY: 'the-key' } });
    const configure: Place['configure'] = (edge) => {
      const config = { log: 'warn', edge, runners: { [agent.name]: agent.entry(stub, home) } };
      writeFileSync(join(dirname(gateway.dataDir), 'config.json'), JSON.stringify(config));
    };
    end = async () => {
      await remove();
      await stub.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 3 });
    };
    configure(BEST_EDGE);
    await gateway.start();
    place = { gateway, stub, home, configure };
  });
  after(() => end());
  return () => place;
}

/** A draft of `todos`: its address below /svc, and its folder. */
async function draftOf(gateway: TestGateway): Promise<{ app: string; folder: string }> {
  const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
  return { app: `_draft/${sessionId}/todos`, folder: draftFolder(gateway, sessionId) };
}

function draftFolder(gateway: TestGateway, workspace: string): string {
  return join(gateway.dataDir, 'code-store/worktrees/sessions', workspace, 'apps/todos');
}

function ofType(events: TurnEventSeen[], type: string): TurnEventSeen[] {
  return events.filter((event) => event.type === type);
}

function finalOf(events: TurnEventSeen[]): string {
  const final = events.at(-2);
  assert.equal(final?.type, 'final', JSON.stringify(events));
  return final?.text;
}

/** Without repetitions of the text before. */
function distinct(types: string[]): string[] {
  return types.filter((type, i) => type !== types[i - 1]);
}

/** The command lines of the processes that the agents started: those whose environment has their tag, or names their home. */
function programsOf({ gateway, home }: Place): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
      const isTheirs = [tagOf(gateway.dataDir), home].some((mark) => environment.includes(mark));
      return isTheirs ? [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')] : [];
    } catch {
      return [];
    }
  });
}

async function eventually(what: string, check: () => boolean): Promise<void> {
  const polling = async () => {
    while (!check()) await pause(20);
  };
  await inTime(polling(), what, LONG_MS);
}

/** Answers the question of a turn of the window `w1` of `app`, which is the last of its events. */
async function answer(gateway: TestGateway, app: string, events: TurnEventSeen[], kind: string): Promise<void> {
  const { requestId, options } = events.at(-1) as TurnEventSeen;
  const optionId = options.find((option: { kind: string }) => option.kind === kind)?.optionId;
  const turn = `/svc/${app}/_chat/windows/w1/turns/${events[0]?.turnId}`;
  const answered = await gateway.call('POST', `${turn}/permissions/${requestId}`, { body: { optionId } });
  assert.equal(answered.status, 200, answered.text);
}

/** A turn of the window `w1`. */
async function checkTurn({ gateway, stub }: Place): Promise<void> {
  const rowsBefore = await gateway.call('GET', '/svc/todos/_chat/windows/w1/history');
  const page = await gateway.stream('/svc/todos/_changes');
  stub.requests.length = 0;
  const message = 'say: I add it.\ncall: add {"title":"milk"}\nsay: Milk is on the list.\nusage: 100 20 5';
  const events = await say(gateway, 'todos', 'w1', message);
  assert.deepEqual(distinct(typesOf(events)), [
    'assistant.start',
    'assistant.delta',
    'tool.start',
    'tool.result',
    'assistant.delta',
    'usage',
    'final',
    'end',
  ]);
  assert.equal(finalOf(events), 'Milk is on the list.');
  for (let seen = ''; !seen.includes('todos'); ) seen = JSON.stringify(await page.next());
  page.close();
  const asked = stub.requests.find(({ text }) => text === message);
  assert.match(asked?.system ?? '', /todos/i, 'it gets a description of the app');
  assert.match(JSON.stringify(asked?.headers), /the-key/);
  assert.ok(!JSON.stringify(stub.requests).includes(gateway.token), 'the token of the gateway is not told');
  const rows = (await historyOf(gateway, 'todos', 'w1')).slice(rowsBefore.status === 200 ? rowsBefore.json.length : 0);
  assert.deepEqual(distinct(rows.map(({ kind }) => kind)), ['user', 'assistant', 'tool', 'assistant']);
}

for (const agent of AGENTS) {
  const { name } = agent;
  const skip = existsSync(program(name)) ? false : `${name} is not installed: npm ci --prefix scripts/agents`;

  describe(`a gateway with ${name}`, { skip }, () => {
    const place = placeOfSuite(agent);

    test('a turn uses the app, and a page sees it', () => checkTurn(place()));

    test('a client that leaves ends its turn, and the next one is answered', async () => {
      const { gateway, stub } = place();
      const stream = await send(gateway, 'todos', { windowId: 'w1', message: 'say: half\nwait: leave' });
      const [start] = await until(stream, 'assistant.delta');
      await inTime(stub.reached('leave'), 'the wait', LONG_MS);
      stream.close();
      const again = await gateway.stream(`/svc/todos/_chat/windows/w1/turns/${start?.turnId}/events`);
      assert.ok(typesOf(await until(again, 'end')).includes('aborted'));
      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: still here')), 'still here');
    });

    test('a turn ends by DELETE, and the agent takes the next one', async () => {
      const { gateway, stub } = place();
      const waiting = await send(gateway, 'todos', { windowId: 'w1', message: 'say: one\nwait: delete' });
      const [start] = await until(waiting, 'assistant.delta');
      await inTime(stub.reached('delete'), 'the wait', LONG_MS);
      await gateway.call('DELETE', `/svc/todos/_chat/windows/w1/turns/${start?.turnId}`);
      const types = typesOf(await turnOf(waiting));
      assert.deepEqual(types.slice(-2), ['aborted', 'end']);
      const [window] = (await gateway.call('GET', '/svc/todos/_chat/windows')).json;
      assert.equal(window?.lastTurn.state, 'aborted');
      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: two')), 'two');
      const texts = (await historyOf(gateway, 'todos', 'w1')).filter(({ kind }) => kind === 'assistant');
      assert.deepEqual(
        texts.slice(-2).map(({ text }) => text),
        ['one', 'two'],
      );
    });

    test('an error of the model server ends only that turn', async () => {
      const { gateway } = place();
      const events = await say(gateway, 'todos', 'w1', 'status: 401');
      assert.deepEqual(typesOf(events).slice(-2), ['error', 'end']);
      assert.equal(events.at(-2)?.code, 'AGENT_FAILED');
      assert.match(events.at(-2)?.message, /key|sign/i);
      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: fine')), 'fine');
    });

    test('windows work at the same time, each with a separate conversation', async () => {
      const { gateway, stub } = place();
      const windows = ['w1', 'w2'];
      const first = await Promise.all(windows.map((id) => say(gateway, 'todos', id, `say: I am ${id}`)));
      assert.deepEqual(first.map(finalOf), ['I am w1', 'I am w2']);
      const second = await Promise.all(windows.map((id) => say(gateway, 'todos', id, `say: and ${id} again`)));
      assert.ok(second.every((events) => events.at(-2)?.type === 'final'));
      for (const id of windows) {
        const asked = JSON.stringify(stub.requests.find(({ text }) => text === `say: and ${id} again`)?.body);
        assert.deepEqual(
          windows.filter((other) => asked.includes(`I am ${other}`)),
          [id],
        );
      }
    });

    test('in mode full it edits the draft, asks a person for more, and gets new tools of the draft', async () => {
      const { gateway, stub } = place();
      const { app, folder } = await draftOf(gateway);
      const edit = await say(gateway, app, 'w1', `${agent.writes(join(folder, 'new.html'), '<p>new</p>')}\nsay: done`, {
        mode: 'full',
      });
      assert.equal(finalOf(edit), 'done');
      assert.match((await gateway.call('GET', `/svc/${app}/new.html`)).text, /<p>new<\/p>/);

      for (const [kind, isThere] of [
        ['reject_once', false],
        ['allow_once', true],
      ] as const) {
        const stream = await send(gateway, app, { windowId: 'w1', message: `${agent.asks.step}\nsay: went on` });
        await answer(gateway, app, await until(stream, 'permission'), kind);
        assert.equal(finalOf(await turnOf(stream)), 'went on');
        assert.equal(existsSync(join(folder, agent.asks.file)), isThere);
      }

      const manifest = JSON.parse(readFileSync(join(folder, 'app.json'), 'utf8'));
      manifest.queries.push({ name: 'greeting' });
      writeFileSync(join(folder, 'app.json'), JSON.stringify(manifest));
      writeFileSync(join(folder, 'queries/greeting.js'), 'export default () => "hello from the draft";');
      const events = await say(gateway, app, 'w1', 'call: greeting {}');
      assert.match(JSON.stringify(ofType(events, 'tool.result')[0]?.result), /hello from the draft/);
      assert.match(JSON.stringify(stub.requests.at(-1)?.body), /went on/, 'in the same conversation');
    });

    test('a command that it leaves in the background ends with its turn, however that ends', async () => {
      const { gateway, stub } = place();
      const { app } = await draftOf(gateway);
      const left = agent.background('tail -f /dev/null');
      const shells = () => programsOf(place()).filter((command) => command.startsWith('tail -f'));
      for (const rest of ['say: done', 'wait: stop']) {
        const stream = await send(gateway, app, { windowId: 'w1', message: `${left}\n${rest}`, mode: 'full' });
        const seen = await until(stream, agent.asksForShell ? 'permission' : 'tool.start');
        if (agent.asksForShell) await answer(gateway, app, seen, 'allow_once');
        if (rest === 'wait: stop') {
          await inTime(stub.reached('stop'), 'the wait', LONG_MS);
          // Its shell may still be starting it.
          await eventually('what it left', () => shells().length > 0);
          await gateway.call('DELETE', `/svc/${app}/_chat/windows/w1/turns/${seen[0]?.turnId}`);
        }
        await until(stream, 'end');
        assert.deepEqual(shells(), [], rest);
        assert.ok(programsOf(place()).length > 0, 'the agent stays');
      }
    });

    test("it edits a conversation's draft with an image beside the message; publishing makes it live", async () => {
      const { gateway, stub } = place();
      const headers = { 'content-type': 'image/png' };
      const blobs = '/_svc-conversations/apps/todos/blobs';
      const { sha256 } = (await gateway.call('POST', blobs, { body: Buffer.from(PIXEL, 'base64'), headers })).json;
      const page = join(draftFolder(gateway, 'conversation-c1'), 'wish.html');
      const message = `${agent.writes(page, '<p>wish</p>')}\nsay: done`;
      const body = { conversationId: 'c1', message, attachments: [{ sha256, name: 'dot.png' }] };
      const events = await turnOf(await gateway.stream('/svc/todos/_turn', {}, body));
      assert.equal(finalOf(events), 'done');
      assert.deepEqual(
        ofType(events, 'file').map(({ path, status }) => [path, status]),
        [['wish.html', 'added']],
      );
      assert.equal(stub.requests.find(({ text }) => text === message)?.images.length, 1);
      assert.match((await gateway.call('GET', '/svc/_draft/conversation-c1/todos/wish.html')).text, /<p>wish<\/p>/);
      assert.equal((await gateway.call('GET', '/svc/todos/wish.html')).status, 404);
      const published = await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
      assert.equal(published.status, 201, published.text);
      assert.match((await gateway.call('GET', '/svc/todos/wish.html')).text, /<p>wish<\/p>/);
    });

    test('an automation asks the agent, which has the tools it may use, and no person is asked', async () => {
      const { gateway } = place();
      const prompt = 'say: first\ncall: add {"title":"by night"}\nthen\nusage: 100 20 5\ncall: list {}';
      const run = `async ({ ctx }) => ({ output: await ctx.agent({ prompt: ${JSON.stringify(prompt)} }) })`;
      const app = appOf('night', {
        queries: { list: '() => []' },
        actions: { add: { run: '({ input }) => ({ body: input })' } },
        automations: { ask: { run, requires: { tools: ['svc_write'] } } },
      });
      assert.equal((await gateway.upload('night', app)).status, 201);
      const ran = await gateway.call('POST', '/svc/_automations/night/ask/run?wait=1', { body: {} });
      assert.equal(ran.json.state, 'ok', ran.text);
      assert.match(String(ran.json.output), /^There is no tool list; there are: [^.]*add/);
      assert.ok(ran.json.usage.inputTokens >= 100, ran.text);
    });

    test('a gateway that is killed leaves no process of an agent or its shells; conversations continue on the other edge', async () => {
      const { gateway, stub, configure } = place();
      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: the first answer')), 'the first answer');
      const rows = await historyOf(gateway, 'todos', 'w1');
      const { app } = await draftOf(gateway);
      // One of them leaves the group of the agent, and loses its parent.
      const message = `say: half\n${agent.shell('(setsid tail -f /dev/null > /dev/null 2>&1 &); tail -f /dev/null')}`;
      const stream = await send(gateway, app, { windowId: 'w1', message, mode: 'full' });
      const seen = await until(stream, agent.asksForShell ? 'permission' : 'tool.start');
      if (agent.asksForShell) await answer(gateway, app, seen, 'allow_once');
      const shells = () => programsOf(place()).filter((command) => command.startsWith('tail -f'));
      await eventually('both shells', () => shells().length === 2);
      await gateway.kill();
      await stream.closed;
      await eventually('the end of all', () => programsOf(place()).length === 0);

      configure('node');
      await gateway.start();
      const windows = `/svc/${app}/_chat/windows`;
      assert.equal((await gateway.call('GET', windows)).json[0]?.lastTurn.state, 'interrupted');
      const events = await replay(gateway, app, 'w1', seen[0]?.turnId);
      assert.equal(events.at(-1)?.type, 'end');
      assert.equal(ofType(events, 'final').length, 0);
      const [asked] = await historyOf(gateway, app, 'w1');
      assert.deepEqual([asked?.text, asked?.state], [message, 'interrupted']);
      assert.equal(finalOf(await say(gateway, app, 'w1', 'say: we go on')), 'we go on');

      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: the second answer')), 'the second answer');
      const told = stub.requests.find(({ text }) => text === 'say: the second answer');
      assert.match(JSON.stringify(told?.body), /the first answer/);
      const rowsNow = await historyOf(gateway, 'todos', 'w1');
      assert.deepEqual([rowsNow.slice(0, -2), rowsNow.length], [rows, rows.length + 2]);
      await checkTurn(place());
    });

    test('a gateway that stops ends the programs', async () => {
      const { gateway } = place();
      assert.ok(programsOf(place()).length > 0);
      await gateway.stop();
      await eventually('the end of its programs', () => programsOf(place()).length === 0);
    });
  });
}
