import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { queryOfUri, queryResources, queryTemplate } from './mcp-resources.ts';

test('a URI names a query and its input, however that is encoded', () => {
  const list = { app: 'notes', query: 'list', input: '{}' };
  for (const [uri, named] of [
    ['svc://notes/queries/list', list],
    ['svc://notes/queries/list?input=%7B%7D', list],
    ['svc://notes/queries/list?input={}', list],
    ['svc://notes/queries/l%69st?input= {}', { ...list, input: ' {}' }],
    ['svc://notes/queries/list?input={"a":"&b#c?d"}', { ...list, input: '{"a":"&b#c?d"}' }],
    ['svc://notes/queries/list?input=%22%25%22', { ...list, input: '"%"' }],
    ['svc://notes/queries/tables?input=null', { app: 'notes', query: 'tables', input: 'null' }],
    ['svc://notes/tables', null],
    ['svc://notes/app.json', null],
    ['svc://notes/queries/', null],
    ['svc://notes/queries/list/more', null],
    ['svc://notes/queries/list?other=1', null],
    ['svc:///queries/list', null],
    ['SVC://notes/queries/list', null],
    ['http://notes/queries/list', null],
    ['', null],
  ] as const) {
    assert.deepEqual(queryOfUri(uri), named, uri);
  }
});

test('a URI made by the template is parsed again', () => {
  const { uriTemplate } = queryTemplate('notes');
  for (const input of [{}, { text: 'a&b=c?d#e%f+g "h" ü\n' }, [1, null], 'x']) {
    const expanded = uriTemplate
      .replace('{query}', encodeURIComponent('list'))
      .replace('{?input}', `?input=${encodeURIComponent(JSON.stringify(input))}`);
    assert.deepEqual(queryOfUri(expanded), { app: 'notes', query: 'list', input: JSON.stringify(input) });
  }
  assert.equal(queryTemplate(null).uriTemplate, 'svc://{app}/queries/{query}{?input}');
});

test('an input that cannot be is refused with words', () => {
  for (const [input, words] of [
    ['', /not JSON/],
    ['{', /not JSON/],
    ['%zz', /percent sign/],
    ['['.repeat(LIMITS.jsonDepth + 1) + ']'.repeat(LIMITS.jsonDepth + 1), /too deep/],
    [`"${'ü'.repeat(LIMITS.mcpUriBytes / 2)}"`, /8192 bytes/],
  ] as const) {
    const refusal = { code: 'INVALID_INPUT', message: words };
    assert.throws(() => queryOfUri(`svc://notes/queries/list?input=${input}`), refusal, `${words}`);
  }
});

test('queries that need no input are listed', () => {
  const run = { input: undefined };
  const queries = [
    { name: 'plain', description: 'Plain.', ...run },
    { name: 'any', input: true },
    { name: 'optional', input: { type: 'object', properties: { a: {} }, required: [] } },
    { name: 'demanding', input: { type: 'object', required: ['a'] } },
    { name: 'never', input: false },
  ];
  const listed = queryResources('notes', { queries } as unknown as Manifest);
  assert.deepEqual(
    listed.map(({ uri, description }) => [uri, description]),
    [
      ['svc://notes/queries/plain', 'Plain.'],
      ['svc://notes/queries/any', 'The result of the query "any" of "notes".'],
      ['svc://notes/queries/optional', 'The result of the query "optional" of "notes".'],
    ],
  );
});
