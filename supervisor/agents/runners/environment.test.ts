import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RUNNER_KINDS, type RunnerEntry, type RunnerKind } from '../../../protocol/agents/agents.ts';
import { runnerEnvironment } from './environment.ts';

const COMMON = {
  PATH: '/bin',
  HOME: '/home/ada',
  USER: 'ada',
  LOGNAME: 'ada',
  SHELL: '/bin/sh',
  LANG: 'C',
  LC_ALL: 'C',
  LC_TIME: 'C',
  TZ: 'UTC',
  TERM: 'dumb',
  NODE_EXTRA_CA_CERTS: '/ca',
  SSL_CERT_DIR: '/certs',
  SSL_CERT_FILE: '/cert',
};
const OF_KIND: Record<Exclude<RunnerKind, 'model'>, Record<string, string>> = {
  codex: { CODEX_HOME: '/codex', OPENAI_API_KEY: 'key-o', OPENAI_BASE_URL: 'http://o' },
  'claude-code': {
    CLAUDE_CONFIG_DIR: '/claude',
    CLAUDE_CODE_OAUTH_TOKEN: 'key-c',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    ANTHROPIC_API_KEY: 'key-a',
    ANTHROPIC_BASE_URL: 'http://a',
  },
  acp: { XDG_CONFIG_HOME: '/config' },
};
/** What a gateway may have besides: of this nothing may reach an agent. */
const SECRETS = {
  SVC_TOKEN: 'secret',
  SVC_URL: 'http://gateway',
  SVC_DATA_DIR: '/data',
  NODE_OPTIONS: '--inspect',
  LD_PRELOAD: '/evil.so',
  AWS_SECRET_ACCESS_KEY: 'secret',
  DATABASE_URL: 'secret',
  CLAUDECODE: '1',
  PATHS: 'x',
  MY_HOME: 'x',
  OPENAI_ORGANIZATION: 'secret',
  LOCAL_KEY: 'secret-key',
};
const GATEWAY = { ...COMMON, ...OF_KIND.codex, ...OF_KIND['claude-code'], ...OF_KIND.acp, ...SECRETS };

for (const kind of RUNNER_KINDS) {
  test(`${kind}: its program gets only the variables on the list for its kind`, () => {
    const env = runnerEnvironment({ kind }, GATEWAY);
    assert.deepEqual(env, kind === 'model' ? {} : { ...COMMON, ...OF_KIND[kind] });
  });
}

test('variables of the entry are added, and win', () => {
  const env = runnerEnvironment({ kind: 'acp', env: { LANG: 'de', EXTRA: 'x' } }, { ...GATEWAY });
  assert.deepEqual(env, { ...COMMON, ...OF_KIND.acp, LANG: 'de', EXTRA: 'x' });
});

test('the key that apiKeyEnv names has the name that the program looks for', () => {
  const entry = (kind: RunnerKind): RunnerEntry => ({ kind, apiKeyEnv: 'LOCAL_KEY' });
  assert.equal(runnerEnvironment(entry('codex'), GATEWAY).OPENAI_API_KEY, 'secret-key');
  assert.equal(runnerEnvironment(entry('claude-code'), GATEWAY).ANTHROPIC_API_KEY, 'secret-key');
  assert.equal(runnerEnvironment(entry('acp'), GATEWAY).LOCAL_KEY, 'secret-key');
  assert.ok(!('LOCAL_KEY' in runnerEnvironment(entry('codex'), GATEWAY)));
  assert.deepEqual(runnerEnvironment(entry('acp'), { PATH: '/bin' }), { PATH: '/bin' });
});

test('behind a proxy the gateway itself is reached without it', () => {
  const { NO_PROXY, no_proxy } = runnerEnvironment(
    { kind: 'codex' },
    { HTTPS_PROXY: 'http://proxy', no_proxy: 'lan' },
  ) as Record<string, string>;
  assert.deepEqual([NO_PROXY, no_proxy], ['lan,127.0.0.1,localhost', 'lan,127.0.0.1,localhost']);
});
