import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkUnchanged, type LiveMigration } from './migrations.ts';

const LIVE: LiveMigration[] = [
  { path: 'migrations/0001_notes.sql', text: Buffer.from('CREATE TABLE notes (id);\n') },
  { path: 'migrations/0002_done.sql', text: Buffer.from('ALTER TABLE notes ADD COLUMN done;\n') },
];
const [FIRST, SECOND] = LIVE as [LiveMigration, LiveMigration];

function check(files: Record<string, string>, live = LIVE): void {
  checkUnchanged(Object.keys(files), (path) => Buffer.from(files[path] as string), live);
}

test('applied migrations may stay, lose the last one, change names or line ends, and be followed by more', () => {
  const same = { [FIRST.path]: `${FIRST.text}`, [SECOND.path]: `${SECOND.text}` };
  check(same);
  check({ ...same, 'migrations/0003_more.sql': 'SELECT 1;' });
  check({ [FIRST.path]: `${FIRST.text}` });
  check({});
  check({ 'migrations/0001_other.sql': 'CREATE TABLE notes (id);\r\n\r\n' });
  check({ 'migrations/0001_any.sql': 'SELECT 1;' }, []);
});

test('applied migrations may not change their text', () => {
  assert.throws(() => check({ [FIRST.path]: 'CREATE TABLE notes (id, done);' }), {
    code: 'INVALID_MIGRATION',
    path: FIRST.path,
    message:
      'migrations/0001_notes.sql has run on the live data before it was changed, and will not run again. Put it back as it was; what is new goes into migrations/0003_<slug>.sql.',
  });
  const replaced = { [FIRST.path]: `${FIRST.text}`, 'migrations/0002_mark.sql': 'ALTER TABLE notes ADD COLUMN mark;' };
  assert.throws(() => check(replaced), {
    path: 'migrations/0002_mark.sql',
    message:
      /^migrations\/0002_mark\.sql has run on the live data as migrations\/0002_done\.sql, and will not run again/,
  });
});
