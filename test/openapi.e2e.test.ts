/** The OpenAPI documents: valid, equal to the existing routes and tools, and correct for callers that follow them. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { ERROR_CODES } from '../protocol/errors.ts';
import { appDocument } from '../supervisor/openapi/app-document.ts';
import { gatewayDocument, templateOf } from '../supervisor/openapi/gateway-document.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';

// biome-ignore lint/suspicious/noExplicitAny: the tests look into it
type Document = any;

async function isValid(document: Document): Promise<void> {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(structuredClone(document));
  assert.equal(valid, true, JSON.stringify(errors));
  assert.equal(validator.version, '3.1');
}

function operationsOf({ paths }: Document): [path: string, method: string, operation: Document][] {
  return Object.entries<Document>(paths).flatMap(([path, methods]) =>
    Object.entries<Document>(methods).map(([method, operation]): [string, string, Document] => [
      path,
      method,
      operation,
    ]),
  );
}

/** Whether a value is valid under a schema of the document. */
function isOf(document: Document, schema: Document, value: unknown): boolean {
  const ajv = new Ajv2020({ strict: false });
  const validate = ajv.compile({ ...schema, components: document.components });
  const isRight = validate(value);
  return isRight === true;
}

test('the document of the gateway has every route, and no other', () => {
  const routes = allRoutes({ automations: {} } as Services);
  const document: Document = gatewayDocument('1.0.0');
  const operations = operationsOf(document);
  assert.deepEqual(
    operations.map(([path, method]) => `${method.toUpperCase()} ${path}`).sort(),
    routes.map(({ method, path }) => `${method} ${templateOf(path)}`).sort(),
  );
  const ids = operations.map(([, , { operationId }]) => operationId);
  assert.equal(new Set(ids).size, ids.length);
  for (const [path, method, operation] of operations) {
    const what = `${method} ${path}`;
    assert.ok(operation.description?.length > 0, `${what} has no row in docs/http-api.md`);
    const named = (operation.parameters ?? []).filter((one: Document) => one.in === 'path');
    assert.deepEqual(
      named.map(({ name }: Document) => name),
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
      what,
    );
    assert.equal(operation.security.length === 0, operation['x-svc-needs'] === 'anyone', what);
    assert.equal(method === 'get' && operation.requestBody !== undefined, false, what);
    assert.ok(
      Object.keys(operation.responses).some((status) => /^(?:20\d|30[38])$/.test(status)) ||
        path.endsWith('/_tool/{tool}'),
      what,
    );
  }
  const { post } = document.paths['/svc/_tool/svc_read'];
  const { schema } = post.requestBody.content['application/json'];
  assert.deepEqual(
    [Object.keys(schema.properties), schema.required],
    [
      ['app', 'query', 'input'],
      ['app', 'query'],
    ],
  );
  assert.equal(schema.properties.app.type, 'string');
  assert.match(post.responses[404].description, /UNKNOWN_APP.*UNKNOWN_QUERY/);
  assert.deepEqual(post.security.at(-1), {}, 'public tools need no token');
  const upload = document.paths['/svc/_apps/{id}/upload'].post;
  assert.deepEqual([Object.keys(upload.requestBody.content), '201' in upload.responses], [['application/gzip'], true]);
  const { get: logs } = document.paths['/svc/_draft/{sid}/_logs'];
  assert.match(logs.responses[404].description, /UNKNOWN_SESSION/, 'as every route of drafts');
  assert.ok('log-cursor' in logs.responses[200].headers);
  assert.deepEqual(document.paths['/svc/_apps/{id}/settings'].put.requestBody.content['application/json'].schema, {
    type: 'object',
    additionalProperties: {},
    description: 'the settings, at most 64 KiB',
  });
  const chat = document.paths['/svc/_draft/{sid}/{id}/_chat'].post;
  assert.deepEqual(Object.keys(chat.responses[200].content), ['text/event-stream'], 'as for the live app');
  assert.match(chat.responses[404].description, /UNKNOWN_SESSION.*UNKNOWN_APP/);
});

const LIST = {
  run: '({ input }) => [{ id: input.first ?? 1, next: null }]',
  description: 'All of them.',
  public: true,
  input: { type: 'object', properties: { first: { $ref: '#/$defs/id' } }, $defs: { id: { type: 'integer' } } },
  output: {
    type: 'array',
    items: { $ref: '#/$defs/node' },
    $defs: {
      node: {
        type: 'object',
        required: ['id'],
        properties: { id: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
      },
    },
  },
};
const ADD = {
  run: '({ input }) => ({ status: 201, body: input.text })',
  confirmation: 'required',
  input: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
  output: { type: 'string' },
};
const NOTES = appOf('notes', {
  queries: { list: LIST, both: '() => 1' },
  actions: { add: ADD, both: '() => 2' },
  manifest: { name: 'Notes', description: 'What to remember.' },
});

test('references of a schema lead to the same parts of it, and data is unchanged', () => {
  const input = {
    type: 'object',
    default: { $ref: '#/a' },
    properties: { again: { $ref: '#' }, far: { $ref: 'https://x/' } },
  };
  const own = { $id: 'https://x/', $ref: '#/$defs/a', $defs: { a: true } };
  const queries = [{ name: 'one', input, output: own }];
  const document: Document = appDocument({ id: 'a', name: 'a', version: '1', queries, actions: [] });
  const { 'query.one.input': placed, 'query.one.output': kept } = document.components.schemas;
  assert.deepEqual(placed.default, { $ref: '#/a' });
  assert.deepEqual(placed.properties, {
    again: { $ref: '#/components/schemas/query.one.input' },
    far: { $ref: 'https://x/' },
  });
  assert.deepEqual(kept, own);
});

describe('documents', () => {
  const gateway = gatewayOfSuite({});
  before(async () => {
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
  });
  const documentOf = async (path: string, token?: null): Promise<Document> => {
    const answer = await gateway.call('GET', path, token === undefined ? {} : { token });
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };

  test('the document of the gateway needs no token, and is valid', async () => {
    const document = await documentOf('/svc/_openapi.json', null);
    await isValid(document);
    assert.equal(document.info.version, (await gateway.call('GET', '/svc/_health')).json.version);
    const { code } = document.components.schemas.Error.properties.error.properties;
    assert.deepEqual(code.enum, Object.keys(ERROR_CODES));
    const missing = await gateway.call('GET', '/svc/_apps/nobody');
    assert.ok(isOf(document, document.components.schemas.Error, missing.json));
  });

  test('that of an app is valid, and has each of its tools', async () => {
    const document = await documentOf('/svc/notes/_openapi.json');
    await isValid(document);
    assert.deepEqual([document.info.title, document.info.description], ['Notes', 'What to remember.']);
    const operations = operationsOf(document).map(([path, , { operationId }]) => [path, operationId]);
    assert.deepEqual(operations, [
      ['/svc/_tool/svc_read#list', 'list'],
      ['/svc/_tool/svc_read#both', 'query.both'],
      ['/svc/_tool/svc_write#add', 'add'],
      ['/svc/_tool/svc_write#both', 'action.both'],
    ]);
    const { list, add } = Object.fromEntries(operationsOf(document).map(([, , one]) => [one.operationId, one]));
    assert.equal(list.description, 'All of them.');
    assert.deepEqual([list.security.length, add.security.length], [3, 2]);
    assert.equal(add['x-svc-confirmation'], 'required');
  });

  test('a call that follows the document gets the documented answer', async () => {
    const document = await documentOf('/svc/notes/_openapi.json');
    for (const [name, path, input, wrong] of [
      ['list', '/svc/_tool/svc_read#list', { first: 7 }, { first: 'x' }],
      ['add', '/svc/_tool/svc_write#add', { text: 'Milk' }, {}],
    ] as const) {
      const operation = document.paths[path].post;
      const { schema } = operation.requestBody.content['application/json'];
      const { app, query, action } = schema.properties;
      const body = {
        app: app.const,
        ...(query === undefined ? { action: action.const } : { query: query.const }),
        input: input as unknown,
      };
      assert.ok(isOf(document, schema, body), name);
      assert.ok(!isOf(document, schema, { ...body, input: wrong }), name);
      // As a generated client does: the path behind the address of the server.
      const request = (sent: object) =>
        fetch(new URL(path, gateway.url), {
          method: 'POST',
          headers: { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json' },
          body: JSON.stringify(sent),
        });
      const answer = (await (await request(body)).json()) as Document;
      const answers = operation.responses[200].content['application/json'].schema;
      assert.ok(isOf(document, answers, answer), JSON.stringify(answer));
      const refused = await request({ ...body, input: wrong });
      assert.equal(refused.status, 400);
      const others = operation.responses.default.content['application/json'].schema;
      assert.ok(isOf(document, others, await refused.json()));
    }
  });

  test('apps, versions and the trash are answered as documented', async () => {
    const document = await documentOf('/svc/_openapi.json', null);
    const answerOf = (path: string, method: string, status: number) =>
      document.paths[path][method].responses[status].content['application/json'].schema;
    const holds = async (path: string, ...[method, called, more]: Parameters<typeof gateway.call>) => {
      const { status, json, text } = await gateway.call(method, called, more);
      assert.ok(isOf(document, answerOf(path, method.toLowerCase(), status), json), `${method} ${called}: ${text}`);
      assert.ok(!isOf(document, answerOf(path, method.toLowerCase(), status), 'another'), path);
    };
    const uploaded = await gateway.upload('other', appOf('other', { queries: { list: '() => [x]' } }));
    assert.ok(isOf(document, answerOf('/svc/_apps/{id}/upload', 'post', 201), uploaded.json), uploaded.text);
    const { versionId } = uploaded.json;
    await holds('/svc/_apps', 'GET', '/svc/_apps');
    await holds('/svc/_apps/{id}', 'GET', '/svc/_apps/notes');
    await holds('/svc/_apps/{id}/activity', 'GET', '/svc/_apps/notes/activity');
    await holds('/svc/_apps/{id}/versions', 'GET', '/svc/_apps/other/versions');
    const files = `/svc/_apps/other/versions/${encodeURIComponent(versionId)}`;
    await holds('/svc/_apps/{id}/versions/{versionId}/files', 'GET', `${files}/files`);
    await holds('/svc/_apps/{id}/versions/{versionId}/diff', 'GET', `${files}/diff`);
    await holds('/svc/_apps/{id}/activate', 'POST', '/svc/_apps/other/activate', { body: { versionId } });
    for (const sql of ['SELECT 1', 'CREATE TABLE a (b)', 'INSERT INTO a VALUES (1) RETURNING b'])
      await holds('/svc/_apps/{id}/sql', 'POST', '/svc/_apps/other/sql', { body: { sql } });
    await holds('/svc/_apps/{id}/copies', 'POST', '/svc/_apps/other/copies');
    await holds('/svc/_apps/{id}/restart', 'POST', '/svc/_apps/other/restart');
    await holds('/svc/_apps/{id}/duplicate', 'POST', '/svc/_apps/other/duplicate', { body: { id: 'another' } });
    await holds('/svc/_apps/{id}', 'DELETE', '/svc/_apps/other');
    await holds('/svc/_trash', 'GET', '/svc/_trash');
    await holds('/svc/_templates', 'GET', '/svc/_templates');
  });

  test('the document of an app is for callers that may describe it', async () => {
    assert.equal((await gateway.call('GET', '/svc/notes/_openapi.json', { token: null })).status, 401);
    assert.equal((await gateway.call('GET', '/svc/nobody/_openapi.json')).json.error.code, 'UNKNOWN_APP');
    await gateway.upload('other', appOf('other', {}));
    const made = await gateway.call('POST', '/svc/_tokens', { body: { name: 'r', tools: 'read', apps: ['other'] } });
    const { token } = made.json;
    assert.equal((await gateway.call('GET', '/svc/notes/_openapi.json', { token })).status, 403);
    assert.equal((await gateway.call('GET', '/svc/other/_openapi.json', { token })).status, 200);
  });
});
