import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { checkManifest } from './manifest-check.ts';

const MINIMAL = { id: 'notes', name: 'Notes', version: '1.0.0' };
const KNOB = { key: 'size', label: 'Size', type: 'segmented', default: 's', options: [{ value: 's', label: 'Small' }] };

const COOK = { name: 'Cook', queries: '*', actions: [] };

/** Members laid over a minimal manifest. */
function refusal(members: unknown): SvcError {
  const text = typeof members === 'string' ? members : JSON.stringify({ ...MINIMAL, ...(members as object) });
  try {
    checkManifest(text, 'notes');
  } catch (error) {
    return error as SvcError;
  }
  return assert.fail('the manifest was taken');
}

const WRONG: [name: string, members: unknown, path: string][] = [
  ['not JSON', '{', ''],
  ['nothing', '', ''],
  ['an array', '[]', ''],
  ['null', 'null', ''],
  ['no id', JSON.stringify({ ...MINIMAL, id: undefined }), 'id'],
  ['no name', JSON.stringify({ ...MINIMAL, name: undefined }), 'name'],
  ['no version', JSON.stringify({ ...MINIMAL, version: undefined }), 'version'],
  ['an empty name', { name: ' ' }, 'name'],
  ['a number for a version', { version: 1 }, 'version'],
  ['another id', { id: 'other' }, 'id'],
  ['another manifest version', { manifestVersion: 2 }, 'manifestVersion'],
  ['a description that is no text', { description: 1 }, 'description'],
  ['an unknown kind', { kind: 'game' }, 'kind'],
  ['a network that is no list', { network: 'example.com' }, 'network'],
  ['a host that is an address of a page', { network: ['a.example', 'https://b.example/'] }, 'network[1]'],
  ['a host that is no text', { network: [1] }, 'network[0]'],
  ['too many hosts', { network: Array(LIMITS.networkHosts + 1).fill('a.example') }, 'network'],
  ['a chat that is no object', { chat: true }, 'chat'],
  ['a right by SQL that there is not', { chat: { sql: true } }, 'chat.sql'],
  ['queries that are no list', { queries: {} }, 'queries'],
  ['a query that is no object', { queries: ['list'] }, 'queries[0]'],
  ['a query without a name', { queries: [{}] }, 'queries[0].name'],
  ['a tool name with an underscore in front', { queries: [{ name: '_list' }] }, 'queries[0].name'],
  ['a tool name that is a path', { actions: [{ name: '../x' }] }, 'actions[0].name'],
  ['a tool name of 65 characters', { actions: [{ name: 'a'.repeat(65) }] }, 'actions[0].name'],
  ['a name twice', { queries: [{ name: 'a' }, { name: 'b' }, { name: 'a' }] }, 'queries[2].name'],
  ['an input that is text', { queries: [{ name: 'a', input: 'object' }] }, 'queries[0].input'],
  ['an output that is a list', { queries: [{ name: 'a', output: [] }] }, 'queries[0].output'],
  ['a refresh every zero seconds', { queries: [{ name: 'a', refreshSeconds: 0 }] }, 'queries[0].refreshSeconds'],
  ['a time limit of zero', { queries: [{ name: 'a', timeoutMs: 0 }] }, 'queries[0].timeoutMs'],
  ['a time limit too long', { queries: [{ name: 'a', timeoutMs: LIMITS.toolTimeoutMs + 1 }] }, 'queries[0].timeoutMs'],
  ['reads that is no list', { queries: [{ name: 'a', reads: 'notes' }] }, 'queries[0].reads'],
  ['writes that holds a number', { actions: [{ name: 'a', writes: ['x', 1] }] }, 'actions[0].writes[1]'],
  ['an unknown confirmation', { actions: [{ name: 'a', confirmation: 'maybe' }] }, 'actions[0].confirmation'],
  ['a knob without options', { knobs: [{ ...KNOB, options: undefined }] }, 'knobs[0].options'],
  ['a knob of an unknown type', { knobs: [{ ...KNOB, type: 'slider' }] }, 'knobs[0].type'],
  ['a knob key that is no attribute', { knobs: [{ ...KNOB, key: 'a b' }] }, 'knobs[0].key'],
  ['a knob option without a label', { knobs: [{ ...KNOB, options: [{ value: 's' }] }] }, 'knobs[0].options[0].label'],
  ['roles that are a list', { roles: [] }, 'roles'],
  ['a role without a name', { roles: { cook: { queries: '*', actions: [] } } }, 'roles.cook.name'],
  ['a role without its actions', { roles: { cook: { name: 'Cook', queries: '*' } } }, 'roles.cook.actions'],
  ['a role with a word for its tools', { roles: { cook: { ...COOK, actions: 'all' } } }, 'roles.cook.actions'],
  ['a role that each gateway has', { roles: { editor: COOK } }, 'roles.editor'],
  ['a role whose id is a name', { roles: { 'Head cook': COOK } }, 'roles.Head cook'],
  ['a role with a tool that there is not', { roles: { cook: { ...COOK, queries: ['a'] } } }, 'roles.cook.queries[0]'],
  ['a knob twice', { knobs: [KNOB, KNOB] }, 'knobs[1].key'],
];

for (const [name, members, path] of WRONG) {
  test(`refused: ${name}`, () => {
    const error = refusal(members);
    assert.equal(error.code, 'INVALID_MANIFEST');
    assert.equal(error.status, 400);
    assert.equal(error.path, path, error.message);
    assert.equal(error.issues?.[0]?.path, path);
  });
}

test('all that is wrong is listed, up to a limit', () => {
  assert.deepEqual(
    refusal({ name: '', kind: 'game', queries: [{}] }).issues?.map(({ path }) => path),
    ['name', 'kind', 'queries[0].name'],
  );
  assert.equal(refusal({ queries: new Array(100).fill({}) }).issues?.length, LIMITS.inputIssues);
});

test('a manifest that nests too deep or is too large is refused before it is checked', () => {
  const nested = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
  assert.equal(refusal(`{"id":"notes","name":"n","version":"1","tables":${nested}}`).path, 'tables');
  assert.match(refusal({ tables: 'x'.repeat(LIMITS.manifestBytes) }).message, /larger than/);
});

test('a minimal manifest gets its empty lists', () => {
  assert.deepEqual(checkManifest(JSON.stringify(MINIMAL), 'notes'), { ...MINIMAL, queries: [], actions: [] });
});

test('a full manifest is kept as it is, unknown members too', () => {
  const manifest = {
    ...MINIMAL,
    manifestVersion: 1,
    description: 'Keeps notes',
    kind: 'app',
    tables: { notes: {} },
    knobs: [KNOB],
    chat: { sql: false },
    queries: [{ name: 'x', description: 'd', input: true, output: {}, timeoutMs: 1, reads: [], more: 1 }],
    actions: [{ name: 'x', confirmation: 'none', input: { type: 'object' }, writes: ['notes'], timeoutMs: 600_000 }],
    more: { a: 1 },
  };
  assert.deepEqual(checkManifest(JSON.stringify(manifest), 'notes'), manifest);
});
