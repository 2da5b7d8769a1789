import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { NEEDS_GIT } from '../../testing/git-fixture.ts';
import { hasMarks, mergeMarked, mergeText } from './merge-text.ts';

describe('merging a text', () => {
  const rows: [name: string, base: string, ours: string, theirs: string, merged: string | null][] = [
    ['takes changes of both sides', 'a\nb\nc\n', 'A\nb\nc\n', 'a\nb\nC\n', 'A\nb\nC\n'],
    ['takes the same change once', 'a\nb\n', 'x\nb\n', 'x\nb\n', 'x\nb\n'],
    ['refuses two changes of a line', 'a\nb\nc\n', 'a\nx\nc\n', 'a\ny\nc\n', null],
    ['refuses changes beside each other', 'a\nb\nc\nd\n', 'a\nx\nc\nd\n', 'a\nb\ny\nd\n', null],
    ['refuses two insertions at one place', 'a\nb\n', 'a\nx\nb\n', 'a\ny\nb\n', null],
    ['keeps a last line without an ending', 'a\nb\nc', 'A\nb\nc', 'a\nb\nc', 'A\nb\nc'],
    ['takes an ending that was added', 'a\nb\nc', 'A\nb\nc', 'a\nb\nc\n', 'A\nb\nc\n'],
    ['refuses two additions at an end without an ending', 'a\nb', 'a\nb\nx', 'a\nb\ny', null],
    ['keeps endings of two kinds', 'a\r\nb\nc\r\n', 'A\r\nb\nc\r\n', 'a\r\nb\nC\r\n', 'A\r\nb\nC\r\n'],
    ['keeps a mark at the beginning', '\uFEFFa\nb\nc\n', '\uFEFFa\nb\nC\n', '\uFEFFA\nb\nc\n', '\uFEFFA\nb\nC\n'],
    ['takes a text that became empty', 'a\n', '', 'a\n', ''],
  ];
  for (const [name, base, ours, theirs, merged] of rows) {
    test(name, () => {
      assert.equal(mergeText(base, ours, theirs), merged);
      assert.equal(mergeText(base, theirs, ours), merged, 'the other way round');
    });
  }

  test('is what git makes of it', NEEDS_GIT, () => {
    const dir = mkdtempSync(join(tmpdir(), 'svc-merge-'));
    const gitMerge = (base: string, ours: string, theirs: string): string | null => {
      const paths = Object.entries({ ours, base, theirs }).map(([name, text]) => {
        writeFileSync(join(dir, name), text);
        return join(dir, name);
      });
      const run = spawnSync('git', ['merge-file', '-p', ...paths], { encoding: 'utf8' });
      return run.status === 0 ? run.stdout : null;
    };
    let clean = 0;
    try {
      fc.assert(
        fc.property(edits, ({ lines, ours, theirs, unended }) => {
          const base = text(
            lines.map((_, n) => `line ${n}`),
            unended.base,
          );
          const [a, b] = [
            text(edited(lines.length, ours), unended.ours),
            text(edited(lines.length, theirs), unended.theirs),
          ];
          const merged = mergeText(base, a, b);
          if (merged !== null) clean++;
          assert.equal(merged, gitMerge(base, a, b));
        }),
        { numRuns: 300 },
      );
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
    assert.ok(clean > 30, `both outcomes are seen: ${clean} were clean`);
  });

  /** Texts in which most lines stand often: every line of one is found all over the other. */
  const repeated = (lines: number, seed: number): string => {
    let state = seed;
    const next = (): number => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return state >>> 16;
    };
    return Array.from({ length: lines }, () => (next() % 2 === 0 ? '}\n' : '\n')).join('');
  };

  test('of texts that say the same over and over ends soon', () => {
    const same = '\n'.repeat(20_000);
    assert.equal(mergeText(`b\n${same}b\n`, `c\n${same}c\n`, `d\n${same}d\n`), null);
    assert.equal(mergeText(`b\n${same}b\n`, `c\n${same}b\n`, `b\n${same}d\n`), `c\n${same}d\n`);
    for (const lines of [1000, 20_000, 500_000]) {
      assert.equal(mergeText(repeated(lines, 1), repeated(lines, 2), repeated(lines, 3)), null);
    }
  });

  test('of large texts ends soon', () => {
    const base = 'x\n'.repeat(200_000);
    assert.equal(mergeText(base, `a\n${base}b\n`, `c\n${base}d\n`), null);
    const other = Array.from({ length: 200_000 }, (_, n) => `${n}\n`);
    assert.equal(
      mergeText(other.join(''), other.with(100, 'x\n').join(''), other.with(300, 'y\n').join('')),
      other.with(100, 'x\n').with(300, 'y\n').join(''),
    );
  });
});

describe('marking what both sides changed', () => {
  const [begin, middle, end] = ['<<<<<<< workspace', '=======', '>>>>>>> published'];
  const rows: [name: string, base: string, workspace: string, published: string, marked: string][] = [
    [
      'keeps both, and merges the rest',
      'a\nb\nc\nd\ne\n',
      'a\nx\nc\nd\nE\n',
      'A\ny\nc\nd\ne\n',
      `${begin}\na\nx\n${middle}\nA\ny\n${end}\nc\nd\nE\n`,
    ],
    ['of a file that is new on both sides', '', 'x\n', 'y\n', `${begin}\nx\n${middle}\ny\n${end}\n`],
    [
      'ends its lines as the text does',
      'a\r\nb\r\n',
      'a\r\nx\r\n',
      'a\r\ny\r\n',
      `a\r\n${begin}\r\nx\r\n${middle}\r\ny\r\n${end}\r\n`,
    ],
    ['ends lines that have no ending', 'a\nb', 'a\nx', 'a\ny', `a\n${begin}\nx\n${middle}\ny\n${end}\n`],
    ['shows lines that one side removed', 'a\nb\nc\n', 'a\nc\n', 'a\ny\nc\n', `a\n${begin}\n${middle}\ny\n${end}\nc\n`],
  ];
  for (const [name, base, workspace, published, marked] of rows) {
    test(name, () => {
      assert.equal(mergeMarked(base, workspace, published), marked);
      assert.ok(hasMarks(Buffer.from(marked)), 'they are seen');
    });
  }

  test('loses no line of texts that are too large to compare', () => {
    const lines = (word: string) => Array.from({ length: 50_000 }, (_, n) => `${word} ${n}\n`).join('');
    const [workspace, published] = [lines('workspace'), lines('published')];
    const expected = `${begin}\n${workspace}${middle}\n${published}${end}\n`;
    assert.equal(mergeMarked(lines('base'), workspace, published), expected);
  });

  test('other lines are no marks', () => {
    for (const text of [`x ${begin}\n${end}\n`, `${begin}\nx ${end}\n`, `${end}\n${begin}\n`, `${begin}\n${end}\0`]) {
      assert.equal(hasMarks(Buffer.from(text)), false, JSON.stringify(text));
    }
  });
});

/** What is done to a line of the base: the texts are of few, so that both sides do the same at times. */
type Edit = 'keep' | 'delete' | { replace: string } | { insert: string };

const edit: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 12, arbitrary: fc.constant('keep' as const) },
  { weight: 1, arbitrary: fc.constant('delete' as const) },
  { weight: 1, arbitrary: fc.record({ replace: fc.constantFrom('p', 'q') }) },
  { weight: 1, arbitrary: fc.record({ insert: fc.constantFrom('r', 's') }) },
);
const edits = fc.integer({ min: 0, max: 14 }).chain((length) => {
  const side = fc.array(edit, { minLength: length, maxLength: length });
  return fc.record({
    lines: fc.constant(Array.from({ length })),
    ours: side,
    theirs: side,
    unended: fc.record({ base: fc.boolean(), ours: fc.boolean(), theirs: fc.boolean() }),
  });
});

/** New lines tell where they came to be, as the same text at two places could be matched in more than one way. */
function edited(length: number, side: Edit[]): string[] {
  return Array.from({ length }, (_, n) => {
    const done = side[n] ?? 'keep';
    if (done === 'delete') return [];
    if (done === 'keep') return [`line ${n}`];
    return 'replace' in done ? [`${done.replace} ${n}`] : [`${done.insert} ${n}`, `line ${n}`];
  }).flat();
}

function text(lines: string[], unended: boolean): string {
  return lines.join('\n') + (unended || lines.length === 0 ? '' : '\n');
}
