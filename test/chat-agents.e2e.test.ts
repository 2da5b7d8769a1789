/** Chat windows with real agents: the whole way from a message to a model, to the app's tools and back. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RunnerEntry } from '../protocol/agents/agents.ts';
import { historyOf, say, send, type TurnEventSeen, textOf, typesOf, until } from '../testing/chat.ts';
import { BEST_EDGE } from '../testing/edges.ts';
import { type EdgeKind, makeGateway, root, type TestGateway } from '../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../testing/model-stub.ts';
import { inTime, LONG_MS, pause } from '../testing/waiting.ts';

const program = (name: string): string => join(root, 'scripts/agents/node_modules/.bin', name);

type RealAgent = {
  name: string;
  entry(stub: ModelStub, folder: string): RunnerEntry;
  /** Steps of a script that have it write a file of its folder, and run a command. */
  write(path: string, text: string): string;
  shell(command: string): string;
};

const AGENTS: RealAgent[] = [
  {
    name: 'codex',
    write: (path, text) => {
      const patch = ['*** Begin Patch', `*** Add File: ${path}`, `+${text}`, '*** End Patch', ''].join('\n');
      return `call: exec_command ${JSON.stringify({ cmd: `apply_patch <<'EOF'\n${patch}EOF\n` })}`;
    },
    shell: (cmd) => `call: exec_command ${JSON.stringify({ cmd })}`,
    entry: (stub, folder) => ({
      kind: 'codex',
      permission: 'allow',
      command: [program('codex')],
      model: 'stub-model',
      baseUrl: `${stub.url}/v1`,
      apiKeyEnv: 'MODEL_KEY',
      env: { HOME: join(folder, 'home'), CODEX_HOME: join(folder, 'home'), TMPDIR: join(folder, 'tmp') },
    }),
  },
  {
    name: 'claude',
    write: (path, text) =>
      `call: Bash ${JSON.stringify({ command: `echo '${text}' > ${path}`, description: 'Write' })}`,
    shell: (command) => `call: Bash ${JSON.stringify({ command, description: 'A command' })}`,
    entry: (stub, folder) => ({
      kind: 'claude-code',
      permission: 'allow',
      command: [program('claude')],
      baseUrl: stub.url,
      apiKeyEnv: 'MODEL_KEY',
      env: { HOME: join(folder, 'home'), TMPDIR: join(folder, 'tmp'), CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
    }),
  },
];

type World = { gateway: TestGateway; stub: ModelStub; folder: string };

for (const { name, entry, write, shell } of AGENTS) {
  const skip = existsSync(program(name)) ? false : `${name} is not installed: npm ci --prefix scripts/agents`;

  /** The gateway of the suite being defined, on this edge, with the git store and the app `todos`. */
  function worldOfSuite(edge: EdgeKind): () => World {
    let world: World;
    let end = async () => {};
    before(async () => {
      const folder = mkdtempSync(join(tmpdir(), 'svc-chat-agents-'));
      for (const name of ['home', 'tmp']) mkdirSync(join(folder, name));
      const stub = await startModelStub();
      const { gateway, remove } = makeGateway({
        edge,
        store: 'git',
        apps: ['todos'],
        config: { runners: { [name]: entry(stub, folder) } },
        env: { MODEL_KEY: 'the-key' },
      });
      end = async () => {
        await stub.close();
        await remove();
        rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
      };
      await gateway.start();
      world = { gateway, stub, folder };
    });
    after(() => end());
    return () => world;
  }

  /** On a gateway with this edge. */
  function testTurn(world: () => World, edge: EdgeKind): void {
    test(`a turn uses the app, and a page sees it (${edge})`, async () => {
      const { gateway, stub } = world();
      const page = await gateway.stream('/svc/todos/_changes');
      const message = 'say: I add it.\ncall: add {"title":"milk"}\nsay: Milk is on the list.\nusage: 100 20 5';
      const events = await say(gateway, 'todos', 'page', message);
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
      assert.equal(events.at(-2)?.text, 'Milk is on the list.');
      for (let seen = ''; !seen.includes('todos'); ) seen = JSON.stringify(await page.next());
      page.close();
      const asked = stub.requests.find(({ text }) => text === message);
      assert.match(asked?.system ?? '', /todos/i, 'it gets a description of the app');
      assert.match(JSON.stringify(asked?.headers), /the-key/);
      assert.ok(!JSON.stringify(stub.requests).includes(gateway.token), 'the token of the gateway is not told');
      const rows = await historyOf(gateway, 'todos', 'page');
      assert.deepEqual(distinct(rows.map(({ kind }) => kind)), ['user', 'assistant', 'tool', 'assistant']);
    });
  }

  describe(`chat with ${name}`, { skip }, () => {
    const world = worldOfSuite(BEST_EDGE);

    testTurn(world, BEST_EDGE);

    test('a client that leaves ends its turn, and the next one is answered', async () => {
      const { gateway, stub } = world();
      const stream = await send(gateway, 'todos', { windowId: 'one', message: 'say: half\nhang' });
      const [start] = await until(stream, 'assistant.delta');
      await inTime(stub.reached('hang'), 'the hanging', LONG_MS);
      stream.close();
      const again = await gateway.stream(`/svc/todos/_chat/windows/one/turns/${start?.turnId}/events`);
      assert.ok(typesOf(await until(again, 'end')).includes('aborted'));
      assert.equal(textOf(await say(gateway, 'todos', 'one', 'say: still here')), 'still here');
    });

    test('windows work at the same time, each with a separate conversation', async () => {
      const { gateway, stub } = world();
      const windows = ['one', 'two'];
      const first = await Promise.all(windows.map((id) => say(gateway, 'todos', id, `say: I am ${id}`)));
      assert.deepEqual(first.map(textOf), ['I am one', 'I am two']);
      const second = await Promise.all(windows.map((id) => say(gateway, 'todos', id, `say: and ${id} again`)));
      assert.ok(second.every((events: TurnEventSeen[]) => events.at(-2)?.type === 'final'));
      for (const id of windows) {
        const asked = JSON.stringify(stub.requests.find(({ text }) => text === `say: and ${id} again`)?.body);
        assert.deepEqual(
          windows.filter((other) => asked.includes(`I am ${other}`)),
          [id],
        );
      }
    });

    test('a conversation changes the draft, which is then published', async () => {
      const { gateway } = world();
      const message = `${write('by-day.html', '<p>by day</p>')}\nsay: It is there.`;
      const stream = await gateway.stream('/svc/todos/_turn', {}, { conversationId: 'c1', message });
      const events = await until(stream, 'end');
      assert.equal(events.findLast(({ type }) => type === 'final')?.text, 'It is there.', JSON.stringify(events));
      const files = events.filter(({ type }) => type === 'file').map(({ path, status }) => `${status} ${path}`);
      assert.deepEqual(files, ['added by-day.html']);
      const draft = await gateway.call('GET', '/svc/_draft/conversation-c1/todos/by-day.html');
      assert.match(draft.text, /by day/);
      const published = await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
      assert.equal(published.status, 201, published.text);
      assert.match((await gateway.call('GET', '/svc/todos/by-day.html')).text, /by day/);
    });
  });

  describe(`chat with ${name}, whose gateway is killed`, { skip }, () => {
    const world = worldOfSuite('node');

    if (BEST_EDGE !== 'node') testTurn(world, 'node');

    test('the conversation continues after the gateway was killed in a turn', async () => {
      const { gateway, stub, folder } = world();
      await say(gateway, 'todos', 'one', 'say: the first answer');
      const stream = await send(gateway, 'todos', { windowId: 'one', message: 'say: half\nhang' });
      await until(stream, 'assistant.delta');
      await inTime(stub.reached('hang'), 'the hanging', LONG_MS);
      assert.ok(processesOf(folder).length > 0);
      await gateway.kill();
      await gateway.start();
      await inTime(noneLeft(folder), 'the end of what the agent left');
      const before = await historyOf(gateway, 'todos', 'one');
      assert.ok(before.some(({ kind, text }) => kind === 'user' && text === 'say: half\nhang'));
      assert.match(JSON.stringify(before), /interrupted/);
      const events = await say(gateway, 'todos', 'one', 'say: the third answer');
      assert.equal(events.at(-2)?.text, 'the third answer');
      const asked = stub.requests.find(({ text }) => text === 'say: the third answer');
      assert.match(JSON.stringify(asked?.body), /the first answer/);
    });

    test('a gateway that is killed leaves no command of an agent', async () => {
      const { gateway, folder } = world();
      const message = shell('sleep 86399');
      const stream = await gateway.stream('/svc/todos/_turn', {}, { conversationId: 'c1', message });
      await until(stream, 'tool.start');
      const isRunning = () => processesOf(folder, 'cmdline').some((line) => line.includes('86399'));
      while (!isRunning()) await pause(50);
      await gateway.kill();
      await gateway.start();
      await inTime(noneLeft(folder), 'the end of what the agent left');
    });
  });
}

/** Without repetitions of the text before. */
function distinct(types: string[]): string[] {
  return types.filter((type, i) => type !== types[i - 1]);
}

/** Resolves when no process of the folder is left: a start asks programs for their versions meanwhile, which are of it too. */
async function noneLeft(folder: string): Promise<void> {
  while (processesOf(folder).length > 0) await pause(50);
}

/** The system's records of the processes whose environment names the folder. */
function processesOf(folder: string, file = 'stat'): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const isOfFolder = readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder);
      return isOfFolder ? [readFileSync(`/proc/${pid}/${file}`, 'utf8')] : [];
    } catch {
      return [];
    }
  });
}
