import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { RunnerEntry } from '../../../protocol/agents/agents.ts';
import { Runners } from './runners.ts';

/** Folders for a PATH; a name that ends in `!` is a file that cannot be run, one that ends in `/` a folder. */
function pathWith(t: TestContext, ...folders: string[][]): string {
  const root = mkdtempSync(join(tmpdir(), 'svc-path-'));
  t.after(() => rmSync(root, { recursive: true }));
  return folders
    .map((names, i) => {
      const folder = join(root, String(i));
      mkdirSync(folder);
      for (const name of names) {
        const path = join(folder, name.replace(/[!/]$/, ''));
        if (name.endsWith('/')) mkdirSync(path);
        else {
          writeFileSync(path, '#!/bin/sh\n');
          chmodSync(path, name.endsWith('!') ? 0o644 : 0o755);
        }
      }
      return folder;
    })
    .join(delimiter);
}

function runnersWith(
  PATH: string,
  configured: Record<string, RunnerEntry> = {},
  more: { runner?: string; env?: Record<string, string> } = {},
): Runners {
  return new Runners({ runners: configured, runner: more.runner ?? null, env: { PATH, ...more.env } });
}

test('without configuration codex comes before claude-code, as far as PATH has them', async (t) => {
  assert.equal(await runnersWith(pathWith(t, ['claude'], ['codex'])).choose(undefined), 'codex');
  assert.equal(await runnersWith(pathWith(t, ['claude'])).choose(undefined), 'claude-code');
  assert.equal(
    await runnersWith(pathWith(t, ['claude', 'codex']), {}, { runner: 'claude-code' }).default(),
    'claude-code',
  );
});

test('files that cannot be run are not found', async (t) => {
  const runners = runnersWith(pathWith(t, ['codex!', 'claude/'], []));
  assert.equal(await runners.default(), null);
  assert.deepEqual([await runners.missing('codex'), await runners.missing('claude-code')], ['codex', 'claude']);
});

test('without any runner the error says what to do', async (t) => {
  await assert.rejects(runnersWith(pathWith(t, [])).choose(undefined), {
    code: 'NO_RUNNER',
    status: 503,
    message: /Install codex or claude .* or configure "runners" with the address of a model server/,
  });
  await assert.rejects(runnersWith('').choose('codex'), {
    code: 'NO_RUNNER',
    message: /The program of the runner "codex"/,
  });
});

test('with configuration those runners are there, and no others', async (t) => {
  const path = pathWith(t, ['codex', 'my-agent']);
  const configured: Record<string, RunnerEntry> = {
    local: { kind: 'model', baseUrl: 'http://127.0.0.1/v1' },
    mine: { kind: 'acp', command: ['my-agent', '--acp'] },
    gone: { kind: 'acp', command: ['/nowhere/agent'] },
  };
  const runners = runnersWith(path, configured);
  assert.deepEqual(runners.names, ['local', 'mine', 'gone']);
  assert.equal(await runners.choose(undefined), 'local');
  assert.equal(await runners.choose('mine'), 'mine');
  assert.equal(await runnersWith(path, configured, { runner: 'mine' }).choose(undefined), 'mine');
  await assert.rejects(runners.choose('codex'), {
    code: 'BAD_REQUEST',
    path: 'runner',
    message: 'There is no runner "codex"; there are: local, mine, gone.',
  });
  await assert.rejects(runners.choose('gone'), { code: 'NO_RUNNER' });
});

test('a limited turn has only runners that enforce mode data', async (t) => {
  const path = pathWith(t, ['codex', 'my-agent']);
  const loose: Record<string, RunnerEntry> = { loose: { kind: 'acp', command: ['my-agent'] } };
  const both: Record<string, RunnerEntry> = { ...loose, local: { kind: 'model', baseUrl: 'http://127.0.0.1/v1' } };
  const runners = runnersWith(path, both, { runner: 'loose' });
  assert.deepEqual(
    runners.names.map((name) => runners.enforcesData(name)),
    [false, true],
  );
  assert.equal(await runners.choose(undefined), 'loose');
  assert.equal(await runners.choose(undefined, { limited: true }), 'local');
  const refusal = { code: 'FORBIDDEN', path: 'runner', message: /"loose" does not enforce mode "data".*another/ };
  await assert.rejects(runners.choose('loose', { limited: true }), refusal);
  await assert.rejects(runners.choose(undefined, { limited: true, usual: 'loose' }), refusal);
  await assert.rejects(runnersWith(path, loose).choose(undefined, { limited: true }), {
    code: 'NO_RUNNER',
    message: /enforces mode "data".*Configure a runner of kind codex, claude-code or model/,
  });
  assert.equal(await runnersWith(path).choose(undefined, { limited: true }), 'codex');
  await assert.rejects(runnersWith('').choose(undefined, { limited: true }), { message: /Install codex or claude/ });
});

test('a conversation stays with its runner, unless another is named or it is not configured any more', async (t) => {
  const runners = runnersWith(pathWith(t, ['my-agent']), {
    local: { kind: 'model', baseUrl: 'http://127.0.0.1/v1' },
    mine: { kind: 'acp', command: ['my-agent'] },
  });
  assert.equal(await runners.choose(undefined, { usual: 'mine' }), 'mine');
  assert.equal(await runners.choose('local', { usual: 'mine' }), 'local');
  assert.equal(await runners.choose(undefined, { usual: 'former' }), 'local');
});

test('the program is looked for where the entry sends it', async (t) => {
  const env = { PATH: pathWith(t, ['codex']) };
  assert.equal(await runnersWith('', { codex: { kind: 'codex', env } }).missing('codex'), null);
});

test('the agents process gets the whole entry, with the key instead of its variable’s name', () => {
  const runners = runnersWith(
    '/bin',
    {
      local: { kind: 'model', baseUrl: 'http://127.0.0.1/v1', apiKeyEnv: 'KEY', model: 'small' },
      codex: { kind: 'codex', apiKeyEnv: 'KEY', env: { A: 'b' }, cwd: 'work' },
    },
    { env: { KEY: 'k', SVC_TOKEN: 'secret' } },
  );
  assert.deepEqual(runners.spec('local'), {
    name: 'local',
    kind: 'model',
    baseUrl: 'http://127.0.0.1/v1',
    model: 'small',
    env: {},
    apiKey: 'k',
  });
  assert.deepEqual(runners.spec('codex'), {
    name: 'codex',
    kind: 'codex',
    cwd: 'work',
    keyVariable: 'OPENAI_API_KEY',
    env: { PATH: '/bin', OPENAI_API_KEY: 'k', A: 'b' },
  });
});

test('the error for a missing key names its variable', () => {
  const runners = runnersWith('', { local: { kind: 'model', baseUrl: 'http://127.0.0.1', apiKeyEnv: 'KEY' } });
  assert.throws(() => runners.spec('local'), { code: 'NO_RUNNER', message: /needs the variable KEY/ });
});
