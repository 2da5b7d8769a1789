/** The official conformance suite of MCP against an app that has the suite's tools. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { root, startGateway, type TestGateway } from '../testing/gateway.ts';

const programs = join(root, 'scripts/agents/node_modules/.bin');
const skip = existsSync(join(programs, 'conformance'))
  ? false
  : 'the conformance suite is not installed: npm ci --prefix scripts/agents';

const SUITE = appOf('suite', {
  queries: {
    test_simple_text: { run: '() => "This is a simple text response for testing."', description: 'Answers a text.' },
    test_error_handling: { run: '() => { throw new Error("On purpose"); }', description: 'Fails.' },
    json_schema_2020_12_tool: {
      run: '({ input }) => input',
      description: 'Answers its input.',
      input: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        $defs: {
          address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
        },
        properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
        additionalProperties: false,
      },
    },
  },
});

/** The suite cannot send a token, so a server in between adds one to its requests. */
async function withToken(t: TestContext, gateway: TestGateway): Promise<string> {
  const server = createServer((asked, answer) => {
    const headers = { ...asked.headers, authorization: `Bearer ${gateway.token}` };
    const passed = request(gateway.url + asked.url, { method: asked.method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 500, response.headers);
      response.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function run(program: string, args: string[]): Promise<{ code: unknown; stdout: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { timeout: 120_000 }, (error, stdout) => resolve({ code: error?.code ?? 0, stdout }));
  });
}

test('passes every scenario that applies to it', { skip }, async (t) => {
  const gateway = await startGateway(t);
  assert.equal((await gateway.upload('suite', SUITE)).status, 201);
  const results = mkdtempSync(join(tmpdir(), 'svc-conformance-'));
  t.after(() => rmSync(results, { recursive: true }));
  const expected = join(root, 'test/mcp-conformance.yaml');
  const url = `${await withToken(t, gateway)}/svc/suite/_mcp`;
  const suite = [join(programs, 'conformance'), 'server', '--suite', 'all', '--url', url];
  const { code, stdout } = await run(join(programs, 'node'), [
    ...suite,
    '--expected-failures',
    expected,
    '-o',
    results,
  ]);
  // It is 1 if an unexpected failure occurs, or an expected failure passes.
  assert.equal(code, 0, `${code}: ${stdout.slice(stdout.indexOf('=== SUMMARY'))}`);
  for (const scenario of ['server-initialize', 'tools-list', 'tools-call-error', 'dns-rebinding-protection'])
    assert.match(stdout, new RegExp(`✓ ${scenario}: [1-9]`));
});
