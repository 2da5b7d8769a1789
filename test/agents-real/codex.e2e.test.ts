import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunnerSpec } from '../protocol/agents/agents.ts';
import { root } from '../testing/gateway.ts';
import { STUB_MODELS } from '../testing/model-stub.ts';
import { runnerCases } from '../testing/runner-cases.ts';
import { eventsOf, finalOf, type RunnerPlace } from '../testing/runner-turns.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';
import { codexRunner } from '../workers/agents/codex/codex.ts';

const codex = join(root, 'scripts/agents/node_modules/.bin/codex');

function spec({ stub, folder }: RunnerPlace): RunnerSpec {
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
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
    asks: {
      step: () => patch('../outside.txt', 'hello'),
      granted: (folder) => existsSync(join(folder, 'outside.txt')),
    },
  },
  (runnerTest) => {
    runnerTest('edits files of its folder, and reaches nothing else', async ({ turns, place, gateway }) => {
      const folder = join(place.folder, 'draft');
      mkdirSync(folder);
      writeFileSync(join(place.folder, 'secret.txt'), 'a secret');
      const run = async (step: string) => {
        const events = await turns.run(step, { mode: 'full', folder });
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
      const events = await turns.run(shell('env; cat /proc/*/environ'), { mode: 'full' });
      const said = JSON.stringify(eventsOf(events, 'tool.result'));
      assert.match(said, /SVC_AGENT=/, 'it has the tag by which it is found');
      assert.doesNotMatch(said, /the-key/);
      assert.ok(!said.includes(gateway.token));
    });

    runnerTest('has an environment of its own alone', async ({ turns, place }) => {
      process.env.SVC_TEST_SECRET = 'of the gateway';
      try {
        const turn = turns.start('hang');
        await inTime(place.stub.reached('hang'), 'the hanging', LONG_MS);
        const names = [...turns.pids].flatMap((pid) =>
          readFileSync(`/proc/${pid}/environ`, 'utf8')
            .split('\0')
            .map((variable) => variable.split('=')[0]),
        );
        turn.cancel();
        await turn.done;
        const wanted = ['CODEX_HOME', 'HOME', 'OPENAI_API_KEY', 'PATH', 'SVC_AGENT', 'SVC_AGENT_TOKEN', 'TMPDIR'];
        // Node itself adds NODE_V8_COVERAGE to whatever it starts, when coverage is counted. Where Node has `execve`, the
        // program's start script runs the program in its own process, with two variables more.
        const added = /^(?:NODE_V8_COVERAGE|CODEX_MANAGED_.*)?$/;
        const given = names.filter((name) => name !== undefined && !added.test(name));
        assert.deepEqual(given.sort(), wanted);
      } finally {
        delete process.env.SVC_TEST_SECRET;
      }
    });

    runnerTest('is not widened by the settings of its user', async ({ turns, place }) => {
      const started = join(place.folder, 'started');
      const touch = (file: string) => `command = "touch"\nargs = [${JSON.stringify(file)}]`;
      const settings = [
        'sandbox_mode = "danger-full-access"',
        'approval_policy = "never"',
        `notify = ["touch", ${JSON.stringify(started)}]`,
        `[mcp_servers.other]\n${touch(started)}`,
      ];
      writeFileSync(join(place.folder, 'home/config.toml'), settings.join('\n'));
      finalOf(await turns.run(shell('echo x > ../written.txt'), { mode: 'full' }));
      assert.ok(!existsSync(started) && !existsSync(join(place.folder, 'written.txt')));
    });

    runnerTest('fails a turn whose tools it cannot reach', async ({ turns, gateway }) => {
      const url = `${gateway.url}/svc/todos/_mcp`;
      const last = (await turns.run('say: x', { gateway: { url, token: 'wrong' } })).at(-1);
      assert.equal(last?.type, 'error');
      assert.match((last as { message: string }).message, /svc/);
    });

    runnerTest('says that nobody is signed in', async ({ turns, place }) => {
      const { baseUrl: _, ...bare } = spec(place);
      const { OPENAI_API_KEY: __, ...env } = bare.env;
      const last = (await turns.run('say: x', { spec: { baseUrl: undefined, env } as never })).at(-1);
      assert.match((last as { message: string }).message, /codex login/);
      assert.equal((await turns.probe('models', { baseUrl: undefined, env } as never)).signedIn, false);
    });

    runnerTest('tells its version, models and tools', async ({ turns }) => {
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
      assert.equal(turns.pids.size, 0);
    });

    runnerTest('refuses a version that is too old', async ({ turns, place }) => {
      const old = join(place.folder, 'old-codex');
      writeFileSync(old, '#!/bin/sh\necho codex-cli 0.99.1\n', { mode: 0o700 });
      await assert.rejects(turns.probe('version', { command: [old] }), /0\.99\.1.*0\.169\.0 or newer/);
    });

    runnerTest('outlives lines that are no messages as one failed turn', async ({ turns, place }) => {
      const broken = join(place.folder, 'broken');
      writeFileSync(broken, '#!/bin/sh\necho "{\\"no"\nsleep 60\n', { mode: 0o700 });
      const last = (await turns.run('say: x', { spec: { command: [broken] } })).at(-1);
      assert.match((last as { message: string }).message, /no message: \{"no/);
      assert.equal(finalOf(await turns.run('say: fine')), 'fine');
    });
  },
);
