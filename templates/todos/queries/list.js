import { TODO } from '../lib/todos.js';

export default async function list({ input, db }) {
  const { filter = 'all', limit = 500 } = input;
  return db.json(
    `SELECT ${TODO}
       FROM todos
      WHERE @filter = 'all' OR (@filter = 'done') = (done_at IS NOT NULL)
      ORDER BY done_at IS NOT NULL, id DESC
      LIMIT @limit`,
    { filter, limit },
  );
}
