/** The statements of the bench app on better-sqlite3 itself: what the plain server runs. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSqlite } from '../storage/sqlite.ts';

/** From the root of the checkout, where every reference is started. */
const SCHEMA = 'bench/app/migrations/0001_create_notes.sql';

export type Durability = 'full' | 'normal';
export type Note = { id: number; title: string; body: string };

/** One app's database. Each method that writes is one commit. */
export class Notes {
  readonly #statements;
  readonly #several: (notes: Note[], updatedAt: number) => void;

  /** Opens `<folder>/<app>.sqlite`; with its schema and rows when it is new. */
  constructor(folder: string, app: string, durability: Durability) {
    const file = join(folder, `${app}.sqlite`);
    const isNew = !existsSync(file);
    const db = openSqlite(file);
    db.pragma('journal_mode = WAL');
    db.pragma(`synchronous = ${durability}`);
    if (isNew) db.exec(readFileSync(SCHEMA, 'utf8'));
    this.#statements = {
      get: db.prepare('SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id = ?'),
      list: db.prepare('SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id > ? ORDER BY id LIMIT ?'),
      put: db.prepare(`INSERT INTO notes (id, title, body, updated_at) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`),
      receive: db.prepare(`INSERT INTO events (id, event, received_at) VALUES (?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET event = excluded.event, received_at = excluded.received_at`),
    };
    this.#several = db.transaction((notes: Note[], updatedAt: number) => {
      for (const { id, title, body } of notes) this.#statements.put.run(id, title, body, updatedAt);
    });
  }

  get({ id }: { id: number }): unknown {
    return this.#statements.get.get(id) ?? null;
  }

  list({ after, limit }: { after: number; limit: number }): unknown[] {
    return this.#statements.list.all(after, limit);
  }

  put({ id, title, body }: Note): unknown {
    const updatedAt = Date.now();
    this.#statements.put.run(id, title, body, updatedAt);
    return { id, updatedAt };
  }

  /** All of them in one transaction. */
  putSeveral({ notes }: { notes: Note[] }): unknown {
    const updatedAt = Date.now();
    this.#several(notes, updatedAt);
    return { count: notes.length, updatedAt };
  }

  receive({ id, event }: { id: number; event: object }): unknown {
    this.#statements.receive.run(id, JSON.stringify(event), Date.now());
    return { id };
  }
}

/** What a reference is asked to do, by name. */
export const WRITES = ['put', 'putSeveral', 'receive'] as const;
export const OPERATIONS = ['get', 'list', ...WRITES] as const;
export type Operation = (typeof OPERATIONS)[number];
