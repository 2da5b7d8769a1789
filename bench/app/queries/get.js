export default async function get({ input, db }) {
  return db.get('SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id = ?', input.id);
}
