// The parts of the plugin that need no host: versions, settings, who is let in, the guard, and what a turn shows.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CONFIG_KEYS } from '../../../supervisor/config.ts';
import { isOfHost } from './admission.ts';
import type { HostConfig } from './host-api.ts';
import { conversationOf, hostKey, refusal } from './session.ts';
import { hostUrl, settingsOf } from './settings.ts';
import { TOOLS } from './tools.ts';
import { eventOf, Results } from './turns.ts';
import { checkHost, NEWEST_HOST, nodeFault, OLDEST_HOST } from './versions.ts';

const manifest = JSON.parse(readFileSync(new URL('../openclaw.plugin.json', import.meta.url), 'utf8'));
const pack = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

test('the manifest names every tool, and each key of the configuration that the host does not decide', () => {
  assert.deepEqual(
    manifest.contracts.tools,
    TOOLS.map(({ shown }) => shown.name),
  );
  for (const { shown, optional } of TOOLS) {
    assert.equal(manifest.toolMetadata[shown.name].optional === true, optional, shown.name);
    assert.equal(manifest.toolMetadata[shown.name].replaySafe === true, shown.annotations.readOnlyHint, shown.name);
  }
  const decided = ['host', 'port', 'edge', 'appsStoreRoot', 'pageOrigins', 'appDomain'];
  const ofDaemon = ['runners', 'runner', 'maxAgents', 'logFormat', 'logFile'];
  const given = CONFIG_KEYS.filter((key) => ![...decided, ...ofDaemon].includes(key));
  const own = ['dataDir', 'node', 'agentId'];
  const { properties, additionalProperties } = manifest.configSchema;
  assert.deepEqual(Object.keys(properties).sort(), [...new Set([...given, ...own])].sort());
  assert.equal(additionalProperties, false);
  const oldest = `>=${OLDEST_HOST}`;
  const { compat, install } = pack.openclaw;
  assert.deepEqual(
    [compat.pluginApi, install.minHostVersion, pack.peerDependencies.openclaw],
    [oldest, oldest, oldest],
  );
});

test('a host that is too old, or has changed, is refused in words; a newer one is warned about', () => {
  assert.deepEqual(checkHost(OLDEST_HOST, []), {});
  assert.match(
    checkHost('2026.9.5', []).refusal ?? '',
    /needs OpenClaw 2026\.9\.6 or newer; this is 2026\.9\.5\. Update it/,
  );
  assert.match(checkHost('2025.12.31', []).refusal ?? '', /needs OpenClaw/);
  assert.match(checkHost('2027.1.1-beta.2', []).warning ?? '', new RegExp(`up to ${NEWEST_HOST}; this is 2027`));
  const changed = checkHost('2027.1.1', ['runtime.agent.runEmbeddedAgent']).refusal ?? '';
  assert.match(
    changed,
    /has changed what svc needs of it \(runtime\.agent\.runEmbeddedAgent\)\. Update the plugin, or/,
  );
});

test('a Node that the gateway does not run on is refused with the setting that names another one', (t) => {
  assert.match(
    nodeFault('/no/such/node', 'plugins.x') ?? '',
    /does not run \(ENOENT\)\. "plugins\.x\.node" must be the path/,
  );
  const folder = mkdtempSync(join(tmpdir(), 'svc-node-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const faultOf = (version: string) => {
    const program = join(folder, version);
    writeFileSync(program, `#!/bin/sh\necho ${version}\n`);
    chmodSync(program, 0o755);
    return nodeFault(program, 'c');
  };
  for (const version of ['22.12.0', '24.16.1', '26.1.0']) assert.equal(faultOf(version), null);
  for (const version of ['20.20.2', '22.11.0', '25.1.0'])
    assert.match(
      faultOf(version) ?? '',
      /runs here on Node 22\.12, 24 or 26, and .* is Node .*\. Install one .* "c\.node"/,
    );
});

test('settings have defaults, and keys of svc are handed on', () => {
  const plugin = (config: Record<string, unknown>): HostConfig => ({ plugins: { entries: { svc: { config } } } });
  assert.deepEqual(settingsOf({}, '/state'), {
    dataDir: '/state/svc',
    node: process.execPath,
    agentId: 'main',
    gateway: {},
  });
  const given = settingsOf(plugin({ dataDir: '/data', node: '/n', agentId: 'ops', log: 'warn' }), '/state');
  assert.deepEqual(given, { dataDir: '/data', node: '/n', agentId: 'ops', gateway: { log: 'warn' } });
  assert.equal(settingsOf(plugin({ dataDir: 'apps' }), '/state').dataDir, '/state/apps');
  assert.equal(settingsOf({ agents: { list: [{ id: 'a' }, { id: 'b', default: true }] } }, '/s').agentId, 'b');
  assert.equal(settingsOf({ agents: { entries: { a: {}, b: { default: true } } } }, '/s').agentId, 'b');
  assert.deepEqual(settingsOf({ gateway: { bind: 'lan' } }, '/s').gateway, { host: '0.0.0.0' });
  assert.equal(hostUrl({ gateway: { port: 1234, tls: { enabled: true } } }, {}), 'https://127.0.0.1:1234');
  assert.equal(hostUrl({}, { OPENCLAW_GATEWAY_PORT: '99' }), 'http://127.0.0.1:99');
  for (const option of [['--port', '7'], ['--port=7']])
    assert.equal(hostUrl({ gateway: { port: 1 } }, {}, ['node', 'gateway', 'run', ...option]), 'http://127.0.0.1:7');
});

test("who comes with the host's own secret is let in, in each of its modes", () => {
  const asks = (headers: Record<string, string>, auth: object, env: NodeJS.ProcessEnv = {}) =>
    isOfHost({ headers } as unknown as IncomingMessage, { gateway: { auth } } as HostConfig, env);
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
  assert.ok(asks(bearer('t'), { token: 't' }));
  assert.ok(asks(bearer('t'), { mode: 'token', token: { source: 'env' } }, { OPENCLAW_GATEWAY_TOKEN: 't' }));
  assert.ok(!asks(bearer('t'), { mode: 'password', token: 't', password: 'p' }));
  assert.ok(asks(bearer('p'), { mode: 'password', password: 'p' }));
  assert.ok(!asks(bearer(''), { token: '' }) && !asks({}, { token: 't' }) && !asks(bearer('x'), {}));
  assert.ok(!asks(bearer('t'), { mode: 'trusted-proxy', token: 't' }));
  assert.ok(asks({}, { mode: 'none' }));
  for (const header of ['origin', 'cookie', 'sec-fetch-site'])
    assert.ok(!asks({ [header]: 'x' }, { mode: 'none' }), header);
});

test('the guard knows the app of a session key as the host writes it', () => {
  const key = hostKey('main', 'svc-chat:notes:wA1');
  assert.deepEqual(conversationOf(key), { kind: 'window', app: 'notes', id: 'A1' });
  assert.equal(conversationOf('agent:main:svc-draft:s1:notes:cx')?.app, 'notes');
  for (const session of [key, key.toLowerCase(), 'svc-chat:notes:w1']) {
    assert.equal(refusal(session, { app: 'notes' }), null);
    assert.equal(refusal(session, {}), null);
    assert.match(refusal(session, { app: 'other' }) ?? '', /own app only, which is "notes"/);
    assert.match(refusal(session, { app: ['notes'] }) ?? '', /own app only/);
  }
  for (const session of [undefined, 'agent:main:main', 'agent:main:telegram:1', 'agent:svc-chat:main'])
    assert.equal(refusal(session, { app: 'other' }), null);
  for (const session of ['agent:main:svc-chat:notes', 'svc-chat:notes:w1:more', 'svc-draft:notes:w1'])
    assert.match(refusal(session, { app: 'notes' }) ?? '', /cannot be read/);
});

test("events of the host's agent become those of a turn", () => {
  const results = new Results();
  const event = (stream: string, data: Record<string, unknown>) => eventOf(stream, data, results);
  assert.deepEqual(event('assistant', { text: 'ab', delta: 'b' }), { type: 'assistant.delta', delta: 'b' });
  assert.deepEqual(event('thinking', { delta: 'hm' }), { type: 'reasoning.delta', delta: 'hm' });
  assert.equal(event('lifecycle', { phase: 'start' }), null);
  const call = { name: 'svc_sql_read', toolCallId: 'c1' };
  const args = { app: 'a', sql: 'SELECT 1' };
  const begun = { type: 'tool.start', toolCallId: 'c1', toolName: 'svc_sql_read', args, sql: 'SELECT 1' };
  assert.deepEqual(event('tool', { ...call, phase: 'start', args }), begun);
  assert.equal(event('tool', { ...call, phase: 'update' }), null);
  results.add('svc_sql_read', { content: [{ type: 'text', text: '[1]' }] });
  results.add('svc_sql_read', { content: [{ type: 'text', text: 'no' }] });
  const of = (ok: boolean, told: object) => ({
    type: 'tool.result',
    toolCallId: 'c1',
    toolName: 'svc_sql_read',
    ok,
    ...told,
  });
  assert.deepEqual(event('tool', { ...call, phase: 'result', isError: false }), of(true, { result: '[1]' }));
  assert.deepEqual(event('tool', { ...call, phase: 'result', isError: true }), of(false, { errorText: 'no' }));
});
