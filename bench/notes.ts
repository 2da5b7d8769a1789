/** The statements of the bench app on better-sqlite3 itself: what the plain server runs. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSqlite } from '../storage/sqlite.ts';

/** From the root of the checkout, where every reference is started. */
const SCHEMA = 'bench/app/migrations/0001_create_notes.sql';

export type Durability = 'full' | 'normal';
type Note = { id: number; title: string; body: string };

/** One app's database, `<folder>/<app>.sqlite`, with its schema and rows when it is new. Each function that writes is one commit. */
export function openNotes(folder: string, app: string, durability: Durability) {
  const file = join(folder, `${app}.sqlite`);
  const isNew = !existsSync(file);
  const db = openSqlite(file);
  db.pragma('journal_mode = WAL');
  db.pragma(`synchronous = ${durability}`);
  if (isNew) db.exec(readFileSync(SCHEMA, 'utf8'));
  const getOne = db.prepare('SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id = ?');
  const getPage = db.prepare(
    'SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id > ? ORDER BY id LIMIT ?',
  );
  const upsert = db.prepare(`INSERT INTO notes (id, title, body, updated_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`);
  const insertEvent = db.prepare(`INSERT INTO events (id, event, received_at) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET event = excluded.event, received_at = excluded.received_at`);
  const several = db.transaction((notes: Note[], updatedAt: number) => {
    for (const { id, title, body } of notes) upsert.run(id, title, body, updatedAt);
  });

  function get({ id }: { id: number }): unknown {
    return getOne.get(id) ?? null;
  }

  function list({ after, limit }: { after: number; limit: number }): unknown[] {
    return getPage.all(after, limit);
  }

  function put({ id, title, body }: Note): unknown {
    const updatedAt = Date.now();
    upsert.run(id, title, body, updatedAt);
    return { id, updatedAt };
  }

  /** All of them in one transaction. */
  function putSeveral({ notes }: { notes: Note[] }): unknown {
    const updatedAt = Date.now();
    several(notes, updatedAt);
    return { count: notes.length, updatedAt };
  }

  function receive({ id, event }: { id: number; event: object }): unknown {
    insertEvent.run(id, JSON.stringify(event), Date.now());
    return { id };
  }

  return { get, list, put, putSeveral, receive };
}

/** What a reference is asked to do, by name. */
export const WRITES = ['put', 'putSeveral', 'receive'] as const;
export const OPERATIONS = ['get', 'list', ...WRITES] as const;
export type Operation = (typeof OPERATIONS)[number];
