import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CHAT_MODES } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { root } from '../../../testing/gateway.ts';
import { filledIn, type GroundingParts, sections } from './grounding.ts';

const textOf = (mode: string) => readFileSync(join(root, 'supervisor/agents/runners/grounding', `${mode}.md`), 'utf8');
const MOST =
  LIMITS.groundingTextBytes + LIMITS.groundingToolsBytes + LIMITS.groundingTablesBytes + LIMITS.groundingHostToolsBytes;

const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

const TODOS: GroundingParts = {
  id: 'todos',
  manifest: {
    name: 'Todos',
    queries: [{ name: 'list', description: 'The todos:\nopen ones first.', input: { type: 'object' } }],
    actions: [{ name: 'add', description: 'Adds $& one.' }],
  },
  tables: [
    {
      name: 'todos',
      columns: [
        { name: 'id', type: 'INTEGER' },
        { name: 'title', type: '' },
      ],
    },
  ],
  hostTools: [{ name: 'Bash', description: 'Runs a command.' }],
};

describe('the text of a mode', () => {
  for (const mode of CHAT_MODES) {
    test(`${mode}: it is not longer than its limit, and has every place`, () => {
      const text = textOf(mode);
      assert.ok(Buffer.byteLength(text) <= LIMITS.groundingTextBytes, `${Buffer.byteLength(text)} bytes`);
      const places = [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name);
      assert.deepEqual(places, ['app', 'tools', 'tables', ...(mode === 'full' ? ['hostTools'] : [])]);
    });
  }
});

test('tools and tables are described with everything that a call needs', () => {
  assert.deepEqual(sections(TODOS), {
    app: '"Todos" (id `todos`)',
    tools: '- query `list` The todos: open ones first. Input: {"type":"object"}\n- action `add` Adds $& one.',
    tables: '- `todos` (id INTEGER, title)',
    hostTools: '- `Bash` Runs a command.',
  });
});

test('inserted text is not a template again', () => {
  const given = { app: '{{tools}} $& $1', tools: 'T', tables: 'B', hostTools: 'H' };
  assert.equal(filledIn('{{app}}, {{tools}}, {{other}}', given), '{{tools}} $& $1, T, {{other}}');
});

test('an app without anything says so', () => {
  const { tools, tables, hostTools } = sections({
    ...TODOS,
    manifest: { name: 'x', queries: [], actions: [] },
    tables: [],
    hostTools: [],
  });
  assert.deepEqual([tools, tables, hostTools], ['None.', 'None.', 'None.']);
});

describe('a huge app', () => {
  const huge = (count: number, chars: number): GroundingParts => ({
    id: 'a',
    manifest: {
      name: 'n'.repeat(10_000),
      queries: many(count, (i) => ({
        name: `q${i}`,
        description: 'd'.repeat(chars),
        input: { description: 's'.repeat(chars) },
      })),
      actions: [],
    },
    tables: many(count, (i) => ({ name: `t${i}`, columns: many(chars, (c) => ({ name: `c${c}`, type: 'TEXT' })) })),
    hostTools: many(count, (i) => ({ name: `h${i}`, description: 'd'.repeat(chars) })),
  });

  test('leaves schemas out before descriptions, and those before names', () => {
    assert.match(sections(huge(15, 400)).tools, /^- query `q0` d{400} Input: /);
    assert.match(sections(huge(40, 380)).tools, /^- query `q0` d{380}\n/);
    assert.match(sections(huge(100, 400)).tools, /^- query `q0`\n- query `q1`\n/);
  });

  for (const [count, chars] of [
    [40, 300],
    [5000, 1000],
    [20_000, 3],
  ] as const) {
    test(`of ${count} tools and tables is told within the limits`, () => {
      const given = sections(huge(count, chars));
      for (const mode of CHAT_MODES) assert.ok(Buffer.byteLength(filledIn(textOf(mode), given)) <= MOST);
      if (count > 1000) assert.match(given.tools, /\n- … and \d+ more\. The list of tools/);
      assert.match(given.tables, /^- `t0`/);
    });
  }
});
