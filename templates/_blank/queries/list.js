// Queries read. What they return is what the caller gets.
export default async function list({ input, db }) {
  return db.all('SELECT id, text, created_at AS createdAt FROM notes ORDER BY id DESC LIMIT ?', input.limit ?? 100);
}
