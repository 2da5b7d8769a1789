/** The operations of `app/` for a peer's SQLite: the same statements as `../notes.ts`, and what a body is answered with. */
const COLUMNS = 'id, title, body, updated_at AS updatedAt';
export const SQL = {
  get: `SELECT ${COLUMNS} FROM notes WHERE id = ?`,
  list: `SELECT ${COLUMNS} FROM notes WHERE id > ? ORDER BY id LIMIT ?`,
  put: `INSERT INTO notes (id, title, body, updated_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`,
};

/** As `bun:sqlite` and `node:sqlite` prepare them, on a database that is opened with `schema` and waits for the disk at each commit. */
export function notesOf(db, schema) {
  db.exec('PRAGMA journal_mode = WAL');
  db.exec('PRAGMA synchronous = full');
  db.exec(schema);
  const get = db.prepare(SQL.get);
  const list = db.prepare(SQL.list);
  const put = db.prepare(SQL.put);
  return {
    get: ({ id }) => get.get(id) ?? null,
    list: ({ after, limit }) => list.all(after, limit),
    put: ({ id, title, body }) => {
      const updatedAt = Date.now();
      put.run(id, title, body, updatedAt);
      return { id, updatedAt };
    },
  };
}

/** The operation that `/<app>/<operation>` names. */
export function operationOf(notes, url) {
  const operation = notes[url.slice(url.lastIndexOf('/') + 1)];
  if (!operation) throw new Error(`There is no operation at ${url}.`);
  return operation;
}

/** Runs what comes in one turn of the event loop in one transaction, and answers once that is durable. */
export function inGroups(db) {
  let waiting = [];
  const commit = () => {
    const group = waiting;
    waiting = [];
    db.exec('BEGIN');
    const answers = group.map(({ run }) => run());
    db.exec('COMMIT');
    for (const [i, { resolve }] of group.entries()) resolve(answers[i]);
  };
  return (run) =>
    new Promise((resolve) => {
      if (waiting.push({ run, resolve }) === 1) setImmediate(commit);
    });
}
