// The runner of Codex, with the real program.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunnerSpec } from '../../protocol/agents/agents.ts';
import { AnswerText } from '../../protocol/agents/answer-text.ts';
import { root } from '../../testing/gateway.ts';
import { STUB_MODELS } from '../../testing/model-stub.ts';
import { FULL, runnerCases } from '../../testing/runner-cases.ts';
import { conversation, eventsOf, finalOf, type RunnerPlace } from '../../testing/runner-turns.ts';
import { codexRunner } from '../../workers/agents/codex/codex.ts';

const codex = join(root, 'scripts/agents/node_modules/.bin/codex');

// Before any program starts, which must not hand it on.
process.env.SVC_TEST_SECRET = 'of the gateway';

/** A file that settings of the user would have made. */
const startedBy = (folder: string): string => join(folder, 'started');

/** Every test has a user whose settings allow everything. */
function spec({ stub, folder }: RunnerPlace): RunnerSpec {
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
  const started = JSON.stringify(startedBy(folder));
  const settings = [
    'sandbox_mode = "danger-full-access"',
    'approval_policy = "never"',
    `notify = ["touch", ${started}]`,
    `[mcp_servers.other]\ncommand = "touch"\nargs = [${started}]`,
  ];
  writeFileSync(join(home, 'config.toml'), settings.join('\n'));
  const { PATH = '' } = process.env;
  return {
    name: 'codex',
    kind: 'codex',
    command: [codex],
    model: 'stub-model',
    baseUrl: `${stub.url}/v1`,
    // It distrusts a home below the folder for temporary files.
    env: { PATH, HOME: home, CODEX_HOME: home, TMPDIR: join(folder, 'tmp'), OPENAI_API_KEY: 'the-key' },
  };
}

const shell = (cmd: string, more: object = {}): string => `call: exec_command ${JSON.stringify({ cmd, ...more })}`;
const patch = (path: string, line: string): string =>
  shell(`apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${path}\n+${line}\n*** End Patch\nEOF\n`);

runnerCases(
  {
    name: 'codex',
    runner: codexRunner,
    skip: existsSync(codex) ? false : 'codex is not installed: npm ci --prefix scripts/agents',
    spec,
    hasProgram: true,
    hasSystem: true,
    reasons: true,
    effortOf: ({ reasoning }) => reasoning?.effort,
    asks: (path) => patch(path, 'hello'),
  },
  (runnerTest) => {
    runnerTest('edits files of its folder, and reaches nothing else', async ({ turns, place, gateway }) => {
      const folder = join(place.folder, 'conversation');
      writeFileSync(join(place.folder, 'secret.txt'), 'a secret');
      const run = async (step: string) => {
        const events = await turns.run(step, FULL);
        assert.deepEqual(eventsOf(events, 'permission'), [], step);
        const [result] = eventsOf(events, 'tool.result');
        assert.ok(result, JSON.stringify(events));
        return result;
      };
      assert.equal((await run(patch('page.html', '<p>hi</p>'))).ok, true);
      assert.equal(readFileSync(join(folder, 'page.html'), 'utf8'), '<p>hi</p>\n');
      assert.equal((await run(shell('sed -i s/hi/ho/ page.html'))).ok, true);
      assert.equal(readFileSync(join(folder, 'page.html'), 'utf8'), '<p>ho</p>\n');

      assert.equal((await run(shell('ls -A'))).result, 'page.html\n', 'the sandbox adds nothing to the draft');
      // The folders around it are empty ones of the sandbox's own.
      await run(shell('echo x > ../written.txt'));
      for (const step of ['cat ../secret.txt', `curl -sS ${gateway.url}/`]) {
        assert.equal((await run(shell(step))).ok, false, step);
      }
      assert.ok(!existsSync(join(place.folder, 'written.txt')));
      assert.deepEqual(readdirSync(folder), ['page.html']);
    });

    runnerTest('has no tools but those of the app in mode data', async ({ turns, place }) => {
      finalOf(await turns.run('say: x'));
      const names = place.stub.requests[0]?.tools.map(({ namespace, name }) => `${namespace ?? 'codex'}.${name}`) ?? [];
      const own = names.filter((name) => !name.startsWith('mcp__svc.'));
      assert.deepEqual(own.sort(), [
        'codex.list_mcp_resource_templates',
        'codex.list_mcp_resources',
        'codex.read_mcp_resource',
        'codex.request_user_input',
      ]);
    });

    runnerTest('keeps the token and the key from its commands', async ({ turns, gateway }) => {
      const events = await turns.run(shell('env; cat /proc/*/environ'), FULL);
      const said = JSON.stringify(eventsOf(events, 'tool.result'));
      assert.match(said, /SVC_AGENT=/, 'it has the tag by which it is found');
      assert.doesNotMatch(said, /the-key/);
      assert.ok(!said.includes(gateway.token));
    });

    runnerTest('has an environment of its own alone', async ({ turns }) => {
      finalOf(await turns.run('say: it runs'));
      const names = [...turns.pids].flatMap((pid) =>
        readFileSync(`/proc/${pid}/environ`, 'utf8')
          .split('\0')
          .map((variable) => variable.split('=')[0]),
      );
      const wanted = ['CODEX_HOME', 'HOME', 'OPENAI_API_KEY', 'PATH', 'SVC_AGENT', 'SVC_AGENT_TOKEN', 'TMPDIR'];
      // Node itself adds NODE_V8_COVERAGE to whatever it starts, when coverage is counted. Where Node has `execve`, the
      // program's start script runs the program in its own process, with two variables more.
      const added = /^(?:NODE_V8_COVERAGE|CODEX_MANAGED_.*)?$/;
      const given = new Set(names.filter((name) => name !== undefined && !added.test(name)));
      assert.deepEqual([...given].sort(), wanted);
    });

    runnerTest('is not widened by the settings of its user', async ({ turns, place }) => {
      finalOf(await turns.run(shell('echo x > ../written.txt'), FULL));
      assert.ok(!existsSync(startedBy(place.folder)) && !existsSync(join(place.folder, 'written.txt')));
    });

    runnerTest('fails a turn whose tools it cannot reach', async ({ turns, gateway }) => {
      const url = `${gateway.url}/svc/todos/_mcp`;
      const last = (await turns.run('say: x', { ...conversation('refused'), gateway: { url, token: 'wrong' } })).at(-1);
      assert.equal(last?.type, 'error');
      assert.match((last as { message: string }).message, /svc/);
    });

    runnerTest('says that nobody is signed in', async ({ turns, place }) => {
      const { OPENAI_API_KEY: _, ...env } = spec(place).env;
      const signedOut = { ...conversation('signed-out'), spec: { baseUrl: undefined, env } as never };
      const last = (await turns.run('say: x', signedOut)).at(-1);
      assert.match((last as { message: string }).message, /codex login/);
      assert.equal((await turns.probe('models', { baseUrl: undefined, env } as never)).signedIn, false);
    });

    runnerTest('tells its version, models and tools', async ({ turns }) => {
      const before = [...turns.pids];
      assert.deepEqual(await turns.probe('version'), { version: '0.169.0' });
      const { models = [] } = await turns.probe('models');
      assert.deepEqual(
        models.map(({ id }) => id),
        STUB_MODELS,
      );
      const { models: builtIn = [], signedIn } = await turns.probe('models', { baseUrl: undefined } as never);
      assert.equal(signedIn, true, 'with a key');
      assert.equal(builtIn.filter(({ isDefault }) => isDefault).length, 1, JSON.stringify(builtIn));
      assert.deepEqual(await turns.probe('tools'), { tools: [] });
      assert.deepEqual([...turns.pids], before);
    });

    runnerTest('says that a half answer is tried again, which is then not beside the whole one', async ({ turns }) => {
      const events = await turns.run('say: half of it\ncut: 1\nsay: whole');
      assert.equal(eventsOf(events, 'phase').filter(({ phase }) => phase === 'retrying').length, 1);
      const answer = new AnswerText();
      for (const event of events) answer.take(event);
      assert.deepEqual([answer.text, finalOf(events)], ['half of it whole', 'half of it whole']);
    });

    runnerTest('reports a version that is too old', async ({ turns, place }) => {
      const old = join(place.folder, 'old-codex');
      writeFileSync(old, '#!/bin/sh\necho codex-cli 0.99.1\n', { mode: 0o700 });
      const { version, fault = '' } = await turns.probe('version', { command: [old] });
      assert.equal(version, '0.99.1');
      assert.match(fault, /0\.99\.1.*0\.169\.0 or newer/);
    });

    runnerTest('outlives lines that are no messages as one failed turn', async ({ turns, place }) => {
      const broken = join(place.folder, 'broken');
      writeFileSync(broken, '#!/bin/sh\necho "{\\"no"\nsleep 60\n', { mode: 0o700 });
      const last = (await turns.run('say: x', { ...conversation('outlived'), spec: { command: [broken] } })).at(-1);
      assert.match((last as { message: string }).message, /no message: \{"no/);
      assert.equal(finalOf(await turns.run('say: fine', conversation('outlived'))), 'fine');
    });
  },
);
