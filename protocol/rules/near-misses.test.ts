/** What is probably mistyped in valid files. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nearMisses, unusedHandlers } from './near-misses.ts';

const TOOL = { name: 'list', description: 'Lists', input: { type: 'object', propertys: {} }, reads: ['notes'] };
const MANIFEST = { id: 'notes', name: 'Notes', version: '1', tables: ['notes'], kind: 'app', queries: [TOOL] };
const AUTOMATION = { name: 'Daily', prompt: 'Does it.', triggers: [{ kind: 'cron', expr: '0 8 * * *', tz: 'UTC' }] };

const said = (file: string, value: object): string[] =>
  nearMisses(file, JSON.stringify(value)).map(({ message }) =>
    message.replace(' is no known member and does nothing', ''),
  );

for (const [what, file, value, found] of [
  ['known members, and those in schemas of authors', 'app.json', MANIFEST, []],
  ['members of the author with names of their own', 'app.json', { ...MANIFEST, ui: 1, x: 2, author: 3, _note: 4 }, []],
  ['a list of tools', 'app.json', { ...MANIFEST, querys: [] }, ['"querys". Did you mean "queries"?']],
  [
    'another case, and swapped letters',
    'app.json',
    { Public: true, kidn: 1 },
    ['"Public". Did you mean "public"?', '"kidn". Did you mean "kind"?'],
  ],
  [
    'a member of a tool',
    'app.json',
    { ...MANIFEST, actions: [TOOL, { name: 'add', inputs: {} }] },
    ['"inputs" of actions[1]. Did you mean "input"?'],
  ],
  [
    'a member inside another',
    'app.json',
    { ...MANIFEST, chat: { sqls: false } },
    ['"sqls" of chat. Did you mean "sql"?'],
  ],
  ['three edits', 'app.json', { ...MANIFEST, querrries1: [] }, []],
  [
    'a valid automation',
    'automations/a/automation.json',
    { ...AUTOMATION, outputSchema: { type: 'object', typ: 1 } },
    [],
  ],
  [
    'an automation',
    'automations/a/automation.json',
    { ...AUTOMATION, enable: false, app: [] },
    ['"enable". Did you mean "enabled"?', '"app". Did you mean "apps"?'],
  ],
  [
    'a trigger',
    'automations/a/automation.json',
    { ...AUTOMATION, triggers: [{ kind: 'cron', expr: '* * * * *', catchup1: 1 }] },
    ['"catchup1" of triggers[0]. Did you mean "catchUp"?'],
  ],
  [
    'the other side of a condition',
    'automations/a/automation.json',
    { ...AUTOMATION, history: { keeps: 1 }, requires: { tool: [] } },
    ['"keeps" of history. Did you mean "keep"?', '"tool" of requires. Did you mean "tools"?'],
  ],
] as [string, string, object, string[]][])
  test(`near misses: ${what}`, () => assert.deepEqual(said(file, value), found));

test('the place of a near miss is told where its name stands once', () => {
  const [once] = nearMisses('app.json', '{\n  "id": "a",\n  "querys": []\n}\n');
  assert.deepEqual([once?.path, once?.line, once?.column, once?.keyword], ['app.json', 3, 3, 'unknown-member']);
  const [twice] = nearMisses('app.json', '{"queries": [{"inputs": {}}, {"inputs": {}}]}');
  assert.equal(twice?.line, undefined);
  assert.deepEqual(nearMisses('app.json', '{"querys"'), []);
});

test('handlers that nothing names and nothing imports are unused', () => {
  const paths = [
    'actions/add.js',
    'automations/daily/automation.json',
    'automations/daily/handler.js',
    'automations/lost/handler.ts',
    'queries/add.js',
    'queries/helper.js',
    'queries/list.ts',
    'queries/list.test.ts',
    'queries/parts/one.js',
    'queries/README.md',
    'queries/types.d.ts',
  ];
  const declared = { queries: [{ name: 'list' }], actions: [{ name: 'add' }] };
  const found = unusedHandlers(paths, declared, new Set(['queries/helper.js']));
  assert.deepEqual(
    found.map(({ path, message, keyword }) => `${path} ${message} ${keyword}`),
    [
      'automations/lost/handler.ts Nothing uses this handler: automations/lost/automation.json is missing. unused-handler',
      'queries/add.js Nothing uses this handler: "queries" in app.json has no "add". unused-handler',
    ],
  );
});
