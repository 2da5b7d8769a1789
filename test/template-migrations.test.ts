/** The migrations with which templates got to know people keep what was stored before, as the administrator's. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSqlite } from '../storage/sqlite.ts';

/** For each: the migration, what was stored before it, and what is read after it. */
const CASES = [
  {
    template: 'journal',
    migration: '0002_pages_of_people.sql',
    before: [
      "INSERT INTO entries VALUES (7, '2026-01-05', 'Tea in the café.', 4, 1, 2)",
      "INSERT INTO reviews VALUES ('2026-01-11', 1, 4, 0, 3)",
    ],
    after: {
      'SELECT * FROM pages': [
        { id: 7, person: '', day: '2026-01-05', text: 'Tea in the café.', words: 4, created_at: 1, updated_at: 2 },
      ],
      "SELECT rowid FROM page_words WHERE page_words MATCH 'cafe'": [{ rowid: 7 }],
      'SELECT person, day, days, words FROM weeks': [{ person: '', day: '2026-01-11', days: 1, words: 4 }],
      // What knows no people finds nothing.
      "SELECT name FROM sqlite_schema WHERE name IN ('entries', 'entry_words', 'reviews')": [],
    },
  },
  {
    template: 'expenses',
    migration: '0002_payers.sql',
    before: ["INSERT INTO expenses (day, cents, category, note, created_at) VALUES ('2026-01-05', 5, 1, 'Tea', 9)"],
    after: { 'SELECT cents, note, payer FROM expenses': [{ cents: 5, note: 'Tea', payer: null }] },
  },
  {
    template: 'kanban',
    migration: '0002_assignees.sql',
    before: [
      "INSERT INTO boards VALUES (1, 'House', 1)",
      "INSERT INTO columns VALUES (1, 1, 'To do', 1)",
      "INSERT INTO cards VALUES (1, 1, 'Paint', '', 'red', 1, 1)",
    ],
    after: { 'SELECT title, color, assignee FROM cards': [{ title: 'Paint', color: 'red', assignee: null }] },
  },
  {
    template: 'todos',
    migration: '0004_people.sql',
    before: ["INSERT INTO todos (title, created_at, done_at) VALUES ('Milk', 1, 2)"],
    after: {
      'SELECT title, done_at, added_name, done_name FROM todos': [
        { title: 'Milk', done_at: 2, added_name: null, done_name: null },
      ],
    },
  },
];

for (const { template, migration, before, after } of CASES) {
  test(template, (t) => {
    const folder = join('templates', template, 'migrations');
    const db = openSqlite(':memory:');
    t.after(() => db.close());
    for (const file of readdirSync(folder).sort()) {
      if (file === migration) for (const sql of before) db.exec(sql);
      db.exec(readFileSync(join(folder, file), 'utf8'));
    }
    for (const [sql, rows] of Object.entries(after)) assert.deepEqual(db.prepare(sql).all(), rows, sql);
  });
}
