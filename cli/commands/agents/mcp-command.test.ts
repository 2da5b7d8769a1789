// The answer of `svc mcp` to its client if the gateway is unreachable or refuses: a message and a next step.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { failure, startGateway, svc, TOKEN, temporaryFolder } from '../../../testing/command-line.ts';

const PING = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`;
const NO_APP = failure(404, 'UNKNOWN_APP', 'No app "nots" is registered.');

async function told(argv: string[], env: NodeJS.ProcessEnv, cwd?: string): Promise<string> {
  const { stdout } = await svc(['mcp', ...argv], { env, stdin: PING, ...(cwd !== undefined && { cwd }) });
  const { id, error } = JSON.parse(stdout);
  assert.equal(id, 1);
  return error.message;
}

/** A server that is not a gateway. */
async function startOther(t: TestContext): Promise<string> {
  const server = createServer((_request, response) => response.end('<!doctype html><title>Printer</title>'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('no gateway runs', async (t) => {
  const cwd = temporaryFolder(t);
  const message = await told([], { HOME: cwd }, cwd);
  assert.match(message, /^No gateway is running on .*\.\nStart one with: svc serve\n/);
});

test('nothing listens at the address', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  server.close();
  await once(server, 'close');
  const message = await told(['--url', url], {});
  assert.match(message, /^No gateway answers at http:\/\/127\.0\.0\.1:\d+: nothing listens there\.\n.*"svc serve"/);
});

test('something else listens at the address', async (t) => {
  const url = await startOther(t);
  assert.match(await told(['--url', url], { SVC_TOKEN: TOKEN }), /is not a gateway: its answer is not JSON\.\n/);
});

test('the app does not exist, or the token is wrong', async (t) => {
  const { env, url } = await startGateway(t, {
    'POST /svc/nots/_mcp': NO_APP,
    'GET /svc/_apps': { json: [{ id: 'notes' }] },
  });
  assert.match(await told(['nots'], env), /^UNKNOWN_APP: No app "nots" is registered\.\nDid you mean "notes"\?$/);
  assert.match(await told(['--url', url, '--token', 'b'], {}), /^UNAUTHORIZED: .*\n.*"svc token" prints the right one/);
});

test('a gateway that ends during a call: what SQL wrote is not known, whatever else was asked is not answered', async (t) => {
  const server = createServer((request) => {
    request.resume().on('end', () => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const [name, code] of [
    ['svc_sql_write', 'OUTCOME_UNKNOWN'],
    ['svc_sql_read', undefined],
  ] as const) {
    const params = { name, arguments: { app: 'notes', sql: 'x' } };
    const stdin = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })}\n`;
    const { stdout } = await svc(['mcp', '--url', url], { env: { SVC_TOKEN: TOKEN }, stdin });
    const { error } = JSON.parse(stdout);
    assert.equal(error.data?.code, code);
    assert.match(error.message, code === undefined ? /^No gateway answers at / : /^OUTCOME_UNKNOWN: .*stored or not/);
  }
});
