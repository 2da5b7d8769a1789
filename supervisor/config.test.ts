import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkConfig, loadConfig, resolveConfig } from './config.ts';

test('later parts win over defaults, and folders become absolute', () => {
  const config = resolveConfig('data', { port: 1, appsDir: 'elsewhere' }, { port: 2, versionRetention: 3 });
  assert.equal(config.port, 2);
  assert.equal(config.versionRetention, 3);
  assert.equal(config.dataDir, join(process.cwd(), 'data'));
  assert.equal(config.appsDir, join(process.cwd(), 'data', 'elsewhere'));
});

for (const [name, value, message] of [
  ['an unknown key', { prot: 1 }, /unknown key "prot".*Known keys: .*port/],
  ['a port out of range', { port: 70_000 }, /"port" in f must be an integer from 0 to 65535/],
  ['a port as text', { port: '80' }, /"port" in f must be/],
  ['a retention below the minimum', { versionRetention: 1 }, /from 2 to/],
  ['an unknown edge', { edge: 'nginx' }, /one of "auto", "uws", "node"/],
  [
    'a host to deny that is none',
    { egress: { deny: ['a.example', 'http://b.example'] } },
    /"egress\.deny\[1\]" in f must be a host such as/,
  ],
  ['an egress list of another name', { egress: { block: [] } }, /"egress" in f must be/],
  ['an origin with a path', { corsOrigins: ['https://a.example/x'] }, /list of origins/],
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
