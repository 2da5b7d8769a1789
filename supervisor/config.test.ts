import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CONFIG_KEYS, checkConfig, defaultConfig, loadConfig, resolveConfig } from './config.ts';
import { CONFIG } from './config-shape.ts';
import { waysOf } from './people/ways.ts';

test('every key of a configuration has a shape', () => {
  assert.deepEqual(Object.keys(defaultConfig('data')).sort(), [...CONFIG_KEYS].sort());
});

test('later parts win over defaults, and folders become absolute', () => {
  const config = resolveConfig('data', { port: 1, appsDir: 'elsewhere' }, { port: 2, versionRetention: 3 });
  assert.equal(config.port, 2);
  assert.equal(resolveConfig('data', { port: 2 }, { port: undefined }).port, 2, 'undefined is not given');
  assert.equal(config.versionRetention, 3);
  assert.equal(config.dataDir, join(process.cwd(), 'data'));
  assert.equal(config.appsDir, join(process.cwd(), 'data', 'elsewhere'));
});

for (const [name, value, message] of [
  ['an unknown key', { prot: 1 }, /unknown key "prot".*Known keys: .*port/],
  ['a port out of range', { port: 70_000 }, /"port" in f must be an integer from 0 to 65535/],
  ['a port as text', { port: '80' }, /"port" in f must be/],
  ['a retention below the minimum', { versionRetention: 1 }, /from 2 to/],
  ['a short token for metrics', { metricsToken: 'a'.repeat(15) }, /"metricsToken" in f must be a token of 16/],
  ['a token for metrics with a space', { metricsToken: `${'a'.repeat(16)} b` }, /"metricsToken" in f must be/],
  ['a log file without a path', { logFile: { maxMb: 1 } }, /"logFile\.path" in f must be a non-empty string/],
  ['a log file of no size', { logFile: { path: 'a', maxMb: 0 } }, /"logFile\.maxMb" in f must be an integer from 1/],
  [
    'a log file with another member',
    { logFile: { path: 'a', size: 1 } },
    /"logFile\.size" in f must be one of path, maxMb, keep/,
  ],
  ['an unknown format of the log', { logFormat: 'text' }, /"auto", "json", "pretty"/],
  ['an unknown edge', { edge: 'nginx' }, /one of "auto", "uws", "node"/],
  [
    'a host to deny that is none',
    { egress: { deny: ['a.example', 'http://b.example'] } },
    /"egress\.deny\[1\]" in f must be a host such as/,
  ],
  ['an egress list of another name', { egress: { block: [] } }, /"egress\.block" in f must be one of allow, deny/],
  ['an origin with a path', { corsOrigins: ['https://a.example/x'] }, /list of origins/],
  ['a public address without a scheme', { publicUrl: 'gateway.example' }, /"publicUrl" in f must be the address of/],
  ['a public address with a query', { publicUrl: 'https://gateway.example/?' }, /without query and fragment/],
  ['a public address with a password', { publicUrl: 'https://u:p@gateway.example' }, /"publicUrl" in f must be/],
  ['a public address that is no text', { publicUrl: 1 }, /"publicUrl" in f must be/],
  [
    'a fire without time',
    { automationTimeoutMs: 999 },
    /"automationTimeoutMs" in f must be an integer from 1000 to 3600000/,
  ],
  ['a list', [], /must be a JSON object/],
  ['null', null, /must be a JSON object/],
] as const) {
  test(`${name} is refused with the key`, () => {
    assert.throws(() => checkConfig(value, 'f'), { name: 'ConfigError', message });
  });
}

test('mail among the channels needs the mail server, and a wrong channel is named by its place', () => {
  assert.throws(
    () => resolveConfig('data', { notify: [{ kind: 'mail' }] }),
    /"notify" .* names mail, so "mail" must be/,
  );
  const bare = { url: 'smtp://mail.example', from: 'a@b.example' };
  const unaddressed = { mail: bare, notify: [{ kind: 'mail' as const }] };
  assert.throws(() => resolveConfig('data', unaddressed), /names mail without "to", so "mail\.to" must be/);
  assert.deepEqual(resolveConfig('data', { mail: bare }).mail, bare);
  const notify = [{ kind: 'push' }, { kind: 'ntfy', url: 'https://ntfy.example' }];
  assert.throws(() => checkConfig({ notify }, 'f'), /"notify\[1\]\.url" in f must be the address of a topic/);
  const mail = { url: 'smtp://:secret@', from: 'a@b.example', to: 'a@b.example' };
  assert.throws(
    () => checkConfig({ mail }, 'f'),
    ({ message }: Error) => message.startsWith('"mail.url" in f must be') && !message.includes('secret'),
  );
});

const PROVIDER = { issuer: 'https://id.example', clientId: 'svc', clientSecretEnv: 'SVC_ID' };

for (const [signIn, path, wanted] of [
  [{ passwords: 'no' }, 'signIn.passwords', /true or false/],
  [{ google: PROVIDER }, 'signIn.google', /one of passkeys, passwords, providers, proxy/],
  [{ providers: { 'a.b': PROVIDER } }, 'signIn.providers.a.b', /named with 1 to 64 letters/],
  [{ providers: { a: { ...PROVIDER, issuer: 'http://id.example' } } }, 'signIn.providers.a.issuer', /an https address/],
  [{ providers: { a: { ...PROVIDER, clientSecretEnv: 'sk-x' } } }, 'signIn.providers.a.clientSecretEnv', /variable/],
  [{ providers: { a: { ...PROVIDER, allow: { domains: ['a@b'] } } } }, 'signIn.providers.a.allow.domains[0]', /domain/],
  [{ providers: { a: { ...PROVIDER, role: 'admin' } } }, 'signIn.providers.a.role', /owner, author, member/],
  [{ proxy: { header: 'Remote-User', from: [] } }, 'signIn.proxy.from', /at least one address/],
  [{ proxy: { header: 'Remote-User' } }, 'signIn.proxy.from', /at least one address/],
  [{ proxy: { url: 'https://a.example' } }, 'signIn.proxy', /"jwtHeader", "jwksUrl", "issuer"/],
] as const) {
  test(`signing in: ${path} must be ${wanted.source}`, () => {
    assert.throws(
      () => checkConfig({ signIn }, 'f'),
      ({ message }: Error) => message.startsWith(`"${path}`) && wanted.test(message),
    );
  });
}

test('signing in: there is a way left, a provider is on this machine or has https, and its secret is there', () => {
  assert.deepEqual(resolveConfig('data').signIn, { passkeys: true, passwords: true });
  const none = { passkeys: false, passwords: false };
  assert.throws(() => resolveConfig('data', { signIn: none }), /"signIn" in the configuration leaves no way/);
  const providers = { a: { ...PROVIDER, issuer: 'http://127.0.0.1:1' } };
  const config = resolveConfig('data', { signIn: { ...none, providers } });
  assert.throws(() => waysOf(config, {}), /"signIn\.providers\.a\.clientSecretEnv" .* SVC_ID, which is not set/);
  assert.equal(waysOf(config, { SVC_ID: 'x' }).providers.get('a')?.role, 'member');
});

test('a public address has no slash at its end', () => {
  assert.equal(resolveConfig('data').publicUrl, null);
  assert.equal(
    resolveConfig('data', { publicUrl: 'https://a.example/gateway//' }).publicUrl,
    'https://a.example/gateway',
  );
});

for (const [name, mcpServers, path, wanted] of [
  ['a list', [], 'mcpServers', /an object of MCP servers by name/],
  ['a name with a dot', { 'a.b': { command: 'x' } }, 'mcpServers.a.b', /named with 1 to 64 letters/],
  ['a name of 65 characters', { ['a'.repeat(65)]: { command: 'x' } }, `mcpServers.${'a'.repeat(65)}`, /named with/],
  ['neither command nor url', { git: {} }, 'mcpServers.git', /either "command" \(stdio\) or "url"/],
  ['both', { git: { command: 'x', url: 'http://a' } }, 'mcpServers.git', /either "command"/],
  ['an unknown member', { git: { command: 'x', arg: [] } }, 'mcpServers.git.arg', /one of command, args, env, cwd/],
  ['headers of a command', { git: { command: 'x', headers: {} } }, 'mcpServers.git.headers', /one of command/],
  ['an empty command', { git: { command: '' } }, 'mcpServers.git.command', /a non-empty string/],
  ['arguments as text', { git: { command: 'x', args: '-v' } }, 'mcpServers.git.args', /a list of strings/],
  ['a number among arguments', { git: { command: 'x', args: ['a', 1] } }, 'mcpServers.git.args[1]', /a string/],
  ['a variable that is no text', { git: { command: 'x', env: { A: 1 } } }, 'mcpServers.git.env.A', /a variable name/],
  ['another scheme', { git: { url: 'file:///a' } }, 'mcpServers.git.url', /an http or https address/],
  ['a password in the address', { git: { url: 'http://u:secret@a' } }, 'mcpServers.git.url', /in "headers"/],
  [
    'a header of two lines',
    { git: { url: 'http://a', headers: { B: 'secret\n' } } },
    'mcpServers.git.headers.B',
    /one line/,
  ],
  ['an inherited name', { git: { command: 'x', constructor: 'x' } }, 'mcpServers.git.constructor', /one of command/],
] as const) {
  test(`MCP servers: ${name} is refused with the path`, () => {
    assert.throws(
      () => checkConfig({ mcpServers }, 'f'),
      (error: Error) => {
        assert.equal(error.name, 'ConfigError');
        assert.ok(error.message.startsWith(`"${path}" in f must be `), error.message);
        assert.match(error.message, wanted);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      },
    );
  });
}

for (const [name, runners, path, wanted] of [
  ['a list', [], 'runners', /an object of runners by name/],
  ['a name with a dot', { 'a.b': { kind: 'codex' } }, 'runners.a.b', /named with 1 to 64 letters/],
  ['no kind', { a: {} }, 'runners.a', /an object with a "kind", one of codex, claude-code, acp, model/],
  ['an unknown kind', { a: { kind: 'gpt' } }, 'runners.a', /an object with a "kind"/],
  ['an unknown member', { a: { kind: 'codex', cmd: [] } }, 'runners.a.cmd', /one of kind, model/],
  ['an inherited name', { a: { kind: 'codex', constructor: 'x' } }, 'runners.a.constructor', /one of kind, model/],
  ['acp without a command', { a: { kind: 'acp' } }, 'runners.a.command', /a list of strings, a program/],
  ['a model without an address', { a: { kind: 'model', model: 'x' } }, 'runners.a.baseUrl', /an http or https address/],
  ['a command as text', { a: { kind: 'codex', command: 'codex' } }, 'runners.a.command', /a list of strings/],
  ['an empty command', { a: { kind: 'codex', command: [] } }, 'runners.a.command', /a program and its arguments/],
  ['a number in a command', { a: { kind: 'codex', command: ['codex', 1] } }, 'runners.a.command[1]', /a string/],
  ['a variable that is no text', { a: { kind: 'codex', env: { A: 1 } } }, 'runners.a.env.A', /a variable name/],
  [
    'a command of a model',
    { a: { kind: 'model', baseUrl: 'http://a', command: ['x'] } },
    'runners.a.command',
    /one of kind/,
  ],
  [
    'an unknown api',
    { a: { kind: 'model', baseUrl: 'http://a', api: 'x' } },
    'runners.a.api',
    /one of chat, responses/,
  ],
  ['a key in the address', { a: { kind: 'codex', baseUrl: 'http://u:secret@a' } }, 'runners.a.baseUrl', /"apiKeyEnv"/],
  [
    'a key in place of its variable',
    { a: { kind: 'codex', apiKeyEnv: 'sk-secret' } },
    'runners.a.apiKeyEnv',
    /the name of an environment variable/,
  ],
  ['an unknown policy', { a: { kind: 'codex', permission: 'yes' } }, 'runners.a.permission', /one of ask, allow, deny/],
] as const) {
  test(`runners: ${name} is refused with the path`, () => {
    assert.throws(
      () => checkConfig({ runners }, 'f'),
      (error: Error) => {
        assert.equal(error.name, 'ConfigError');
        assert.ok(error.message.startsWith(`"${path}" in f must be `), error.message);
        assert.match(error.message, wanted);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      },
    );
  });
}

test('runners of every kind are taken, and the one that "runner" names', () => {
  const runners = {
    codex: { kind: 'codex', permission: 'allow' },
    claude: { kind: 'claude-code', command: ['/opt/claude'], env: { A: 'b' }, cwd: '/srv', model: 'opus' },
    gemini: { kind: 'acp', command: ['gemini', '--acp'], apiKeyEnv: 'GEMINI_API_KEY' },
    local: { kind: 'model', baseUrl: 'http://127.0.0.1:8080/v1', api: 'chat', model: 'qwen' },
  } as const;
  const config = resolveConfig('data', { runners: structuredClone(runners) as never, runner: 'local' });
  assert.deepEqual([config.runners, config.runner], [runners, 'local']);
});

test('"runner" names a configured one, or codex or claude-code without any', () => {
  const local = { kind: 'model', baseUrl: 'http://127.0.0.1' } as const;
  assert.throws(
    () => resolveConfig('data', { runners: { local }, runner: 'codex' }),
    /"runner" .* must be one of local/,
  );
  assert.throws(() => resolveConfig('data', { runner: 'gemini' }), /"runner" .* must be one of codex, claude-code/);
  assert.equal(resolveConfig('data', { runner: 'claude-code' }).runner, 'claude-code');
});

test('MCP servers of both kinds are taken', () => {
  const mcpServers = {
    git: { command: 'npx', args: ['-y', 'git-server'], env: { TOKEN: 'x' }, cwd: '/srv' },
    Search_2: { url: 'https://mcp.example.org/mcp', headers: { Authorization: 'Bearer x' } },
  };
  assert.deepEqual(resolveConfig('data', { mcpServers }).mcpServers, mcpServers);
});

test('a file that is missing or not JSON says so', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.throws(() => loadConfig(join(folder, 'none.json')), /cannot be read \(ENOENT\)/);
  writeFileSync(join(folder, 'bad.json'), '{"port": 1,}');
  assert.throws(() => loadConfig(join(folder, 'bad.json')), /is not JSON/);
});

const MAIL = { url: 'smtps://u:p@mail.example', from: 'svc <svc@home.example>', to: ['a@b.example'] };

test('mail and notify are checked to the member', () => {
  assert.equal(CONFIG.fault({ mail: MAIL }), null);
  for (const [value, at] of [
    [{ url: MAIL.url }, '.from'],
    [{ ...MAIL, url: 'https://mail.example' }, '.url'],
    [{ ...MAIL, from: 'nobody' }, '.from'],
    [{ ...MAIL, from: 'a@b.example\r\nBcc: c@d.example' }, '.from'],
    [{ ...MAIL, to: [] }, '.to'],
    [{ ...MAIL, too: 'a@b.example' }, '.too'],
    ['smtp://x', ''],
  ] as const)
    assert.equal(CONFIG.fault({ mail: value })?.path, `mail${at}`, JSON.stringify(value));
  assert.equal(
    CONFIG.fault({
      notify: [
        { kind: 'push', contact: 'mailto:a@b.example' },
        { kind: 'mail', to: 'a@b.example' },
      ],
    }),
    null,
  );
  for (const [value, at] of [
    [{}, ''],
    [[{ kind: 'pigeon' }], '[0]'],
    [[{ kind: 'mail' }, { kind: 'slack' }], '[1].url'],
    [[{ kind: 'json', url: 'https://user:password@hook.example' }], '[0].url'],
    [[{ kind: 'ntfy', url: 'https://ntfy.example/' }], '[0].url'],
    [[{ kind: 'json', url: 'https://hook.example', headers: { 'x y': '1' } }], '[0].headers.x y'],
    [[{ kind: 'slack', url: 'https://hook.example', channel: '#a' }], '[0].channel'],
    [[{ kind: 'push', contact: 'me' }], '[0].contact'],
  ] as const)
    assert.equal(CONFIG.fault({ notify: value })?.path, `notify${at}`, JSON.stringify(value));
});
