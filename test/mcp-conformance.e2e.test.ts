/** The official conformance suite of MCP against an app that has the suite's tools; mcp-conformance.yaml has what cannot apply. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
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

/** An action that a person at the client has to allow: what the suite's tools that ask come to here. */
const asking = (answer = 'Allowed.') => ({
  run: `() => ({ body: ${JSON.stringify(answer)} })`,
  description: 'Answers a text.',
  confirmation: 'required' as const,
});

/** The tools that the suite calls, as far as an app can have them. */
const SUITE = appOf('suite', {
  queries: {
    test_simple_text: { run: '() => "This is a simple text response for testing."', description: 'Answers a text.' },
    test_error_handling: { run: '() => { throw new Error("On purpose"); }', description: 'Fails.' },
    test_logging_tool: {
      run: '() => { console.log("A line"); return "ok"; }',
      description: 'Writes a line to its log.',
    },
    json_schema_2020_12_tool: {
      run: '({ input }) => input',
      description: 'Answers its input.',
      input: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        $defs: {
          address: {
            $anchor: 'addressDef',
            type: 'object',
            properties: { street: { type: 'string' }, city: { type: 'string' } },
          },
        },
        properties: {
          name: { type: 'string' },
          address: { $ref: '#/$defs/address' },
          contactMethod: { type: 'string', enum: ['phone', 'email'] },
          phone: { type: 'string' },
          email: { type: 'string' },
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { required: ['phone'] },
        else: { required: ['email'] },
        additionalProperties: false,
      },
    },
  },
  actions: {
    test_elicitation: asking(),
    test_streaming_elicitation: asking(),
    test_input_required_result_elicitation: asking(),
    test_input_required_result_request_state: asking('state-ok'),
    test_input_required_result_tampered_state: asking(),
    test_input_required_result_capabilities: asking(),
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
    answer.on('close', () => passed.destroy());
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

/** One of each era, and what passes there for more than want of a tool. */
const VERSIONS: Record<string, string[]> = {
  '2025-11-25': ['server-initialize', 'server-session-lifecycle', 'ping', 'tools-call-elicitation'],
  '2026-07-28': [
    'http-header-validation',
    'input-required-result-request-state',
    'input-required-result-tampered-state',
  ],
};
const BOTH = ['tools-list', 'tools-call-error', 'json-schema-2020-12', 'resources-list', 'dns-rebinding-protection'];

test('passes every scenario that applies to it, in both eras', { skip }, async (t) => {
  const gateway = await startGateway(t);
  const { status, text } = await gateway.upload('suite', SUITE);
  assert.equal(status, 201, text);
  const results = mkdtempSync(join(tmpdir(), 'svc-conformance-'));
  t.after(() => rmSync(results, { recursive: true }));
  const url = `${await withToken(t, gateway)}/svc/suite/_mcp`;
  const list = join(root, 'test/mcp-conformance.yaml');
  const unseen = new Set(readFileSync(list, 'utf8').match(/(?<=^ {2}- )\S+/gm));
  assert.ok(unseen.size > 0);
  for (const [version, passes] of Object.entries(VERSIONS)) {
    const suite = [join(programs, 'conformance'), 'server', '--suite', 'all', '--spec-version', version, '--url', url];
    const { code, stdout } = await run(join(programs, 'node'), [...suite, '--expected-failures', list, '-o', results]);
    // It is 1 if an unexpected failure occurs, or an expected failure passes.
    assert.equal(code, 0, `${version}: ${code}: ${stdout.slice(stdout.indexOf('=== SUMMARY'))}`);
    for (const [, entry = ''] of stdout.matchAll(/^ {2}~ (\S+)$/gm)) unseen.delete(entry);
    for (const scenario of [...passes, ...BOTH]) assert.match(stdout, new RegExp(`✓ ${scenario}: [1-9]`), version);
  }
  // What it does not run, it does not call stale either.
  assert.deepEqual([...unseen], []);
});
