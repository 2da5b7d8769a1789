/** Real agents behind a real daemon: what they do in a draft, how their turns end, and that they leave no processes. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RunnerEntry } from '../protocol/agents/agents.ts';
import { taggedWith, tagOf } from '../storage/processes/tagged.ts';
import { appOf } from '../testing/apps.ts';
import { historyOf, replay, say, send, type TurnEventSeen, turnOf, typesOf, until } from '../testing/chat.ts';
import { makeGateway, root, type TestGateway } from '../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../testing/model-stub.ts';
import { inTime, LONG_MS, pause } from '../testing/waiting.ts';

type RealAgent = {
  name: string;
  program: string;
  /** Its entry in `runners`, with its model at `stub` and its home in `home`. */
  entry(stub: ModelStub, home: string): Omit<RunnerEntry, 'command'>;
  /** Steps of a script of the stub. */
  shell(command: string): string;
  writes(path: string, text: string): string;
  /** A step that asks for permission, and the file that it makes when granted. */
  asks: { step: string; file: string };
};

const codexShell = (cmd: string): string => `call: exec_command ${JSON.stringify({ cmd })}`;
const codexWrites = (path: string, text: string): string =>
  codexShell(`apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${path}\n+${text}\n*** End Patch\nEOF\n`);
const claudeShell = (command: string): string => `call: Bash ${JSON.stringify({ command, description: 'A step' })}`;

const AGENTS: RealAgent[] = [
  {
    name: 'claude',
    program: 'claude',
    entry: (stub, home) => ({
      kind: 'claude-code',
      baseUrl: stub.url,
      env: { HOME: home, ANTHROPIC_API_KEY: 'the-key', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
    }),
    shell: claudeShell,
    writes: (file_path, content) => `call: Write ${JSON.stringify({ file_path, content })}`,
    asks: { step: claudeShell('echo yes > granted.txt'), file: 'granted.txt' },
  },
  {
    name: 'codex',
    program: 'codex',
    entry: (stub, home) => ({
      kind: 'codex',
      model: 'stub-model',
      baseUrl: `${stub.url}/v1`,
      // It distrusts a home below the folder for temporary files.
      env: { HOME: home, CODEX_HOME: home, TMPDIR: join(home, 'tmp'), OPENAI_API_KEY: 'the-key' },
    }),
    shell: codexShell,
    writes: codexWrites,
    asks: { step: codexWrites('../granted.txt', 'yes'), file: '../granted.txt' },
  },
];

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

type Place = { gateway: TestGateway; stub: ModelStub };

/** A daemon with the git store and the app `todos`, for the suite that is being defined; its one runner is this agent. */
function placeOfSuite(agent: RealAgent, entry: Partial<RunnerEntry> = {}): () => Place {
  let place: Place;
  let end = async () => {};
  before(async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-home-'));
    mkdirSync(join(home, 'tmp'));
    const stub = await startModelStub();
    const runner = { ...agent.entry(stub, home), command: [programOf(agent)], ...entry };
    const config = { runners: { [agent.name]: runner } };
    const { gateway, remove } = makeGateway({ store: 'git', apps: ['todos'], config });
    end = async () => {
      await remove();
      await stub.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 3 });
    };
    await gateway.start();
    place = { gateway, stub };
  });
  after(() => end());
  return () => place;
}

function programOf({ program }: RealAgent): string {
  return join(root, 'scripts/agents/node_modules/.bin', program);
}

/** A draft of `todos`: its address below /svc, and its folder. */
async function draftOf(gateway: TestGateway): Promise<{ app: string; folder: string }> {
  const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
  return { app: `_draft/${sessionId}/todos`, folder: draftFolder(gateway, sessionId) };
}

function draftFolder(gateway: TestGateway, session: string): string {
  return join(gateway.dataDir, 'code-store/worktrees/sessions', session, 'apps/todos');
}

function ofType(events: TurnEventSeen[], type: string): TurnEventSeen[] {
  return events.filter((event) => event.type === type);
}

function finalOf(events: TurnEventSeen[]): string {
  const final = events.at(-2);
  assert.equal(final?.type, 'final', JSON.stringify(events));
  return final?.text;
}

/** The command lines of the processes that the agents of this gateway started. */
function programsOf(gateway: TestGateway): string[] {
  return taggedWith(tagOf(gateway.dataDir)).map(({ pid }) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    } catch {
      return '';
    }
  });
}

async function eventually(what: string, check: () => boolean): Promise<void> {
  const polling = async () => {
    while (!check()) await pause(20);
  };
  await inTime(polling(), what, LONG_MS);
}

for (const agent of AGENTS) {
  const skip = existsSync(programOf(agent))
    ? false
    : `${agent.program} is not installed: npm ci --prefix scripts/agents`;

  describe(`an app and ${agent.name}`, { skip }, () => {
    const place = placeOfSuite(agent);

    test('in mode full it edits the draft, and asks a person for more', async () => {
      const { gateway } = place();
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
        const events = await until(stream, 'permission');
        const { requestId, options } = events.at(-1) as TurnEventSeen;
        const optionId = options.find((option: { kind: string }) => option.kind === kind)?.optionId;
        const turn = `/svc/${app}/_chat/windows/w1/turns/${events[0]?.turnId}`;
        const answer = await gateway.call('POST', `${turn}/permissions/${requestId}`, { body: { optionId } });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(finalOf(await turnOf(stream)), 'went on');
        assert.equal(existsSync(join(folder, agent.asks.file)), isThere);
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
      assert.equal((await gateway.call('GET', '/svc/todos/wish.html')).status, 404);
      const published = await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
      assert.equal(published.status, 201, published.text);
      assert.match((await gateway.call('GET', '/svc/todos/wish.html')).text, /<p>wish<\/p>/);
    });

    test('new tools of the draft are available in the next turn', async () => {
      const { gateway, stub } = place();
      const { app, folder } = await draftOf(gateway);
      finalOf(await say(gateway, app, 'w1', 'say: the first answer', { mode: 'full' }));
      const manifest = JSON.parse(readFileSync(join(folder, 'app.json'), 'utf8'));
      manifest.queries.push({ name: 'greeting' });
      writeFileSync(join(folder, 'app.json'), JSON.stringify(manifest));
      writeFileSync(join(folder, 'queries/greeting.js'), 'export default () => "hello from the draft";');
      const events = await say(gateway, app, 'w1', 'call: greeting {}');
      assert.match(JSON.stringify(ofType(events, 'tool.result')[0]?.result), /hello from the draft/);
      assert.match(JSON.stringify(stub.requests.at(-1)?.body), /the first answer/, 'in the same conversation');
    });

    test('an automation asks the agent, and no person is asked for permission', async () => {
      const { gateway } = place();
      const prompt = 'say: [\ncall: add {"title":"by night"}\nthen\nsay: 1]\nusage: 100 20 5';
      const run = `async ({ ctx }) => ({ output: await ctx.agent({ prompt: ${JSON.stringify(prompt)} }) })`;
      const app = appOf('night', {
        actions: { add: { run: '({ input }) => ({ body: input })' } },
        automations: {
          ask: { run, requires: { tools: ['svc_write'] } },
          look: { run, requires: { tools: ['svc_read'] } },
        },
      });
      assert.equal((await gateway.upload('night', app)).status, 201);
      const ran = await gateway.call('POST', '/svc/_automations/night/ask/run?wait=1', { body: {} });
      assert.equal(ran.json.state, 'ok', ran.text);
      assert.match(JSON.stringify(ran.json.output), /1\]/);
      assert.ok(ran.json.usage.inputTokens >= 100, ran.text);
      const looked = await gateway.call('POST', '/svc/_automations/night/look/run?wait=1', { body: {} });
      assert.match(JSON.stringify(looked.json.output), /There is no tool add/);
    });

    test('a turn ends by DELETE, and the agent takes the next one', async () => {
      const { gateway, stub } = place();
      const hanging = await send(gateway, 'todos', { windowId: 'w1', message: 'say: one\nhang' });
      const [start] = await until(hanging, 'assistant.delta');
      await inTime(stub.reached('hang'), 'the hanging', LONG_MS);
      await gateway.call('DELETE', `/svc/todos/_chat/windows/w1/turns/${start?.turnId}`);
      const types = typesOf(await turnOf(hanging));
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
  });

  describe(`a gateway with ${agent.name} that ends`, { skip }, () => {
    const place = placeOfSuite(agent, { permission: 'allow' });

    test('a conversation continues after a restart of the gateway', async () => {
      const { gateway, stub } = place();
      finalOf(await say(gateway, 'todos', 'w1', 'say: the first answer'));
      await gateway.stop();
      await eventually('the end of its programs', () => programsOf(gateway).length === 0);
      await gateway.start();
      assert.equal(finalOf(await say(gateway, 'todos', 'w1', 'say: the second answer')), 'the second answer');
      const asked = stub.requests.find(({ text }) => text === 'say: the second answer');
      assert.match(JSON.stringify(asked?.body), /the first answer/);
      assert.equal((await historyOf(gateway, 'todos', 'w1')).length, 4);
    });

    test('no process of an agent and its shells is left when the gateway is killed', async () => {
      const { gateway } = place();
      const { app } = await draftOf(gateway);
      // One of them leaves the group of the agent, and loses its parent.
      const message = agent.shell('(setsid tail -f /dev/null > /dev/null 2>&1 &); tail -f /dev/null');
      const stream = await send(gateway, app, { windowId: 'w1', message, mode: 'full' });
      const [start] = await until(stream, 'tool.start');
      const shells = () => programsOf(gateway).filter((command) => command.startsWith('tail -f'));
      await eventually('both shells', () => shells().length === 2);
      await gateway.kill();
      await stream.closed;
      await eventually('the end of all', () => programsOf(gateway).length === 0);

      await gateway.start();
      const window = `/svc/${app}/_chat/windows`;
      assert.equal((await gateway.call('GET', window)).json[0]?.lastTurn.state, 'interrupted');
      const events = await replay(gateway, app, 'w1', start?.turnId);
      assert.equal(events.at(-1)?.type, 'end');
      assert.equal(ofType(events, 'final').length, 0);
      const [said] = await historyOf(gateway, app, 'w1');
      assert.equal(said?.text, message);
      assert.equal(finalOf(await say(gateway, app, 'w1', 'say: we go on')), 'we go on');
    });
  });
}
