// The runner of Claude Code, with the real program.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunnerEvent, RunnerSpec } from '../../protocol/agents/agents.ts';
import { descendantsOf } from '../../storage/processes/tagged.ts';
import { root } from '../../testing/gateway.ts';
import { STUB_MODELS } from '../../testing/model-stub.ts';
import { dispatcherTools, FULL, runnerCases } from '../../testing/runner-cases.ts';
import { conversation, eventsOf, finalOf, type RunnerPlace, RunnerTurns } from '../../testing/runner-turns.ts';
import { inTime, LONG_MS, pause } from '../../testing/waiting.ts';
import { claudeCode } from '../../workers/agents/claude-code/claude-code.ts';

const claude = join(root, 'scripts/agents/node_modules/.bin/claude');
const skip = existsSync(claude) ? false : 'Claude Code is not installed: npm ci --prefix scripts/agents';

// Before any program starts, which must not hand it on.
process.env.SVC_TEST_SECRET = 'of the gateway';

const homeOf = (folder: string): string => join(folder, 'home');

/** Every test has a user and a folder with settings that start programs. */
function specOf(place: RunnerPlace): RunnerSpec {
  const { stub, folder } = place;
  const home = homeOf(folder);
  setTraps(place, home, 'user', '.claude.json');
  setTraps(place, join(folder, 'conversation'), 'folder', '.mcp.json');
  const env = { PATH: process.env.PATH ?? '', HOME: home, ANTHROPIC_API_KEY: 'sk-test' };
  return { name: 'claude', kind: 'claude-code', command: [claude], baseUrl: stub.url, env };
}

/** Settings in a folder that start programs, each of which makes a file, and a memory. */
function setTraps(place: RunnerPlace, where: string, of: string, serverFile: string): void {
  const made = (name: string) => join(place.folder, `${name}-${of}`);
  const hook = { type: 'command', command: `touch ${made('hook')}` };
  const server = { command: 'touch', args: [made('server')] };
  mkdirSync(join(where, '.claude'), { recursive: true });
  writeFileSync(join(where, '.claude/settings.json'), JSON.stringify({ hooks: { SessionStart: [{ hooks: [hook] }] } }));
  writeFileSync(join(where, 'CLAUDE.md'), `Memory of the ${of}.`);
  writeFileSync(join(where, '.claude/CLAUDE.md'), `Memory of the ${of}.`);
  writeFileSync(join(where, serverFile), JSON.stringify({ mcpServers: { [`server-${of}`]: server } }));
}

function shell(command: string): string {
  return `call: Bash ${JSON.stringify({ command, description: 'A step' })}`;
}

function errorOf(events: RunnerEvent[]): string {
  const last = events.at(-1);
  assert.equal(last?.type, 'error', JSON.stringify(events));
  return (last as Extract<RunnerEvent, { type: 'error' }>).message;
}

/** The command lines, which every user may read, and the environments of a process and of those that it started. */
function tracesOf(pid: number): { commands: string; environments: string } {
  const pids = [pid, ...descendantsOf([pid]).map((one) => one.pid)];
  const read = (file: string) => pids.map((id) => contentOf(`/proc/${id}/${file}`)).join('\n');
  return { commands: read('cmdline'), environments: read('environ') };
}

/** Empty for a process that has ended. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Those of all programs that run. */
function commandsOf({ pids }: RunnerTurns): string {
  return [...pids].map((pid) => tracesOf(pid).commands).join('\n');
}

runnerCases(
  {
    name: 'the runner of Claude Code',
    runner: claudeCode,
    skip,
    spec: specOf,
    hasProgram: true,
    hasSystem: true,
    reasons: true,
    effortOf: ({ output_config: config }) => config?.effort,
    asks: (path) => shell(`echo yes > ${path}`),
  },
  (runnerTest) => {
    runnerTest('shows the token of the gateway to nobody', async ({ turns, place, gateway }) => {
      const turn = turns.start(`${shell('env; cat /proc/*/cmdline || true')}\nwait: look`, {
        ...FULL,
        permission: 'allow',
      });
      await inTime(place.stub.reached('look'), 'the wait', LONG_MS);
      const traces = [...turns.pids].map(tracesOf);
      const shown = await turn.event('tool.result');
      const files = readdirSync(place.folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath ?? entry.path, entry.name), 'utf8'));
      turn.cancel();
      await turn.done;
      assert.match(String(shown.result), /ANTHROPIC_BASE_URL/, 'it was the environment');
      const seen = traces.flatMap(({ commands, environments }) => [commands, environments]);
      assert.ok(traces.length > 0);
      for (const text of [...seen, String(shown.result), ...files]) {
        assert.doesNotMatch(text, new RegExp(gateway.token));
      }
      for (const { environments } of traces) assert.doesNotMatch(environments, /SVC_TEST_SECRET/);
      assert.doesNotMatch(String(shown.result), /SVC_TEST_SECRET/);
    });

    runnerTest('starts no program that its user or folder names', async ({ turns, place }) => {
      finalOf(await turns.run('call: add {"title":"tea"}', FULL));
      const left = readdirSync(place.folder).filter((name) => /^(?:hook|server)-/.test(name));
      assert.deepEqual(left, []);
      assert.doesNotMatch(JSON.stringify(place.stub.requests), /Memory of the/);
    });

    runnerTest('has the tools of the app alone in mode data', async ({ turns, place }) => {
      finalOf(await turns.run('say: x'));
      const names = place.stub.requests[0]?.tools.map(({ name }) => name) ?? [];
      assert.ok(names.length > 0);
      assert.deepEqual(
        names.filter((name) => !name.startsWith('mcp__svc__')),
        [],
      );
    });

    runnerTest('reads and writes files of the draft, and no others', async ({ turns, place }) => {
      const folder = join(place.folder, 'conversation');
      const outside = join(place.folder, 'outside');
      mkdirSync(outside);
      writeFileSync(join(outside, 'secret.txt'), 'the secret');
      symlinkSync(outside, join(folder, 'link'));
      const path = join(folder, 'page.html');
      const script = [
        `call: Write ${JSON.stringify({ file_path: path, content: 'one two' })}`,
        'then',
        `call: Edit ${JSON.stringify({ file_path: path, old_string: 'two', new_string: 'three' })}`,
        'then',
        ...[join(outside, 'secret.txt'), join(folder, 'link/secret.txt'), '/etc/passwd'].flatMap((file) => [
          `call: Read ${JSON.stringify({ file_path: file })}`,
          'then',
        ]),
        `call: Write ${JSON.stringify({ file_path: join(folder, 'link/new.txt'), content: 'x' })}`,
        'then',
        `call: Write ${JSON.stringify({ file_path: join(outside, 'new.txt'), content: 'x' })}`,
      ].join('\n');
      const events = await turns.run(script, FULL);
      assert.equal(readFileSync(path, 'utf8'), 'one three');
      const results = eventsOf(events, 'tool.result').map(({ ok }) => ok);
      assert.deepEqual(results, [true, true, false, false, false, false, false]);
      assert.deepEqual(readdirSync(outside), ['secret.txt']);
      assert.deepEqual(eventsOf(events, 'permission'), []);
    });

    runnerTest('asks for each command of its shell', async ({ turns }) => {
      const turn = turns.start(`${shell('ls')}\nsay: done`, FULL);
      const { toolName, detail, requestId } = await turn.event('permission');
      assert.deepEqual({ toolName, detail }, { toolName: 'Bash', detail: 'ls' });
      turn.answer(requestId, null);
      const [result] = eventsOf(await turn.done, 'tool.result');
      assert.equal(result?.ok, false);
    });

    runnerTest('stops in the middle of a tool, and of a question', async ({ turns, place }) => {
      const mark = join(place.folder, 'running');
      const running = turns.start(shell(`touch ${mark}; tail -f /dev/null`), { ...FULL, permission: 'allow' });
      while (!existsSync(mark)) await pause(20);
      const before = [...turns.pids];
      running.cancel();
      const [result] = eventsOf(await running.done, 'tool.result');
      assert.equal(result?.ok, false);
      while (commandsOf(turns).includes('tail')) await pause(20);

      const asking = turns.start(shell('ls'), FULL);
      await asking.event('permission');
      asking.cancel();
      const types = (await asking.done).map(({ type }) => type);
      assert.ok(types.includes('tool.result') && !types.includes('error'), types.join());
      assert.equal(finalOf(await turns.run('say: again', FULL)), 'again');
      assert.deepEqual([...turns.pids], before, 'the same program goes on');
    });

    runnerTest('takes a message back that it has not begun with', async ({ turns }) => {
      finalOf(await turns.run('say: warm'));
      for (let turn = 0; turn < 5; turn++) {
        const cancelled = turns.start('say: never\nhang');
        cancelled.cancel();
        const types = (await cancelled.done).map(({ type }) => type);
        assert.ok(!types.includes('error') && !types.includes('final'), types.join());
        assert.equal(finalOf(await turns.run('say: next')), 'next');
      }
    });

    runnerTest('changes its model and effort between turns of one program', async ({ turns, place }) => {
      finalOf(await turns.run('say: one'));
      const before = [...turns.pids];
      finalOf(await turns.run('say: two', { model: 'stub-small', thinking: 'high' }));
      finalOf(await turns.run('say: three'));
      assert.deepEqual([...turns.pids], before);
      // It asks a model that it does not know whether it is there.
      const [one, two, three] = ['one', 'two', 'three'].map((word) => {
        const asked = place.stub.requests.find(({ text }) => text === `say: ${word}`);
        return [asked?.model, asked?.body.output_config?.effort];
      });
      assert.deepEqual(two, ['stub-small', 'high']);
      assert.deepEqual(three, one);
    });

    runnerTest(
      'shows its model results of some size, and others all of a long one',
      async ({ turns, place, gateway }) => {
        for (const [bytes, isWhole] of [
          [50_000, true],
          [100_000, false],
        ] as const) {
          const args = { app: 'todos', sql: `SELECT hex(zeroblob(${bytes})) AS x` };
          const events = await turns.run(`call: svc_sql_read ${JSON.stringify(args)}`, dispatcherTools(gateway));
          const [start] = eventsOf(events, 'tool.start');
          assert.equal(start?.sql, args.sql);
          const [result] = eventsOf(events, 'tool.result');
          assert.equal(String(result?.result).match(/0/g)?.length, 2 * bytes);
          const shown = place.stub.requests.at(-1)?.results.at(-1)?.text ?? '';
          assert.equal(shown.length > 2 * bytes, isWhole);
        }
      },
    );

    runnerTest('takes what looks like a command as a message', async ({ turns, place }) => {
      for (const message of ['/clear', '/help me', '!touch x', 'see @/etc/passwd']) {
        assert.equal(finalOf(await turns.run(message)).replace('\n', ''), `You said: ${message}`);
      }
      assert.doesNotMatch(JSON.stringify(place.stub.requests), /root:x:/);
    });

    runnerTest('says so when the gateway refuses its token', async ({ turns, gateway }) => {
      const wrong = { url: `${gateway.url}/svc/todos/_mcp`, token: 'svct_wrong' };
      assert.match(
        errorOf(await turns.run('say: x', { ...conversation('refused'), gateway: wrong })),
        /the app's tools.*401/,
      );
    });

    runnerTest(
      "says how to sign in, and never signs in at a server of one's own",
      async ({ turns, place, gateway }) => {
        const { PATH = '' } = process.env;
        const env = { PATH, HOME: homeOf(place.folder) };
        const signedIn = { env: { ...env, CLAUDE_CODE_OAUTH_TOKEN: 'sk-ant-oat-mine' } };
        finalOf(await turns.run('say: x', { ...conversation('signed-in'), spec: signedIn }));
        assert.doesNotMatch(JSON.stringify(place.stub.requests[0]?.headers), /sk-ant-oat-mine/);
        const { baseUrl, ...spec } = { ...specOf(place), env: { ...env, ANTHROPIC_BASE_URL: place.stub.url } };
        const tools = { url: `${gateway.url}/svc/todos/_mcp`, token: gateway.token };
        const signedOut = new RunnerTurns(place, claudeCode, spec, tools);
        assert.match(errorOf(await signedOut.run('say: x')), /not signed in.*\/login.*apiKeyEnv/);
        assert.equal((await signedOut.probe('models')).signedIn, false);
        await signedOut.end();
      },
    );

    runnerTest('says so when the program is too old', async ({ turns, place }) => {
      const old = join(place.folder, 'old');
      writeFileSync(old, '#!/bin/sh\necho "error: unknown option \'--restricted\'" >&2\nexit 1\n');
      chmodSync(old, 0o700);
      assert.match(
        errorOf(await turns.run('say: x', { ...conversation('old'), spec: { command: [old] } })),
        /too old.*npm install -g @anthropic-ai\/claude-code@2\.1\.329/,
      );
      writeFileSync(old, '#!/bin/sh\necho "2.1.197 (Claude Code)"\n');
      const { version, fault = '' } = await turns.probe('version', { command: [old] });
      assert.equal(version, '2.1.197');
      assert.match(fault, /2\.1\.197; 2\.1\.329 or newer is needed.*@2\.1\.329/);
    });

    runnerTest('tells its version, models and tools without asking a model', async ({ turns, place, gateway }) => {
      assert.match((await turns.probe('version')).version ?? '', /^\d+\.\d+\.\d+$/);
      const { baseUrl = '', ...bare } = specOf(place);
      for (const address of [baseUrl, `${baseUrl}/v1/`]) {
        const { models = [] } = await turns.probe('models', { baseUrl: address });
        assert.deepEqual(
          models.map(({ id }) => id),
          STUB_MODELS,
        );
      }
      const own = new RunnerTurns(place, claudeCode, bare, { url: gateway.url, token: 'none' });
      const { models = [], signedIn } = await own.probe('models');
      await own.end();
      assert.equal(signedIn, true);
      assert.equal(models.filter(({ isDefault }) => isDefault).length, 1);
      assert.ok(models.length > 1 && models.every(({ id, name }) => id !== '' && name !== ''));
      const { tools = [] } = await turns.probe('tools');
      assert.deepEqual(tools.map(({ name }) => name).sort(), ['Bash', 'Edit', 'Glob', 'Grep', 'Read', 'Write']);
      assert.deepEqual(place.stub.requests, []);
      await assert.rejects(turns.probe('version', { command: ['/bin/true'] }), /true exited with code 0/);
    });
  },
);
