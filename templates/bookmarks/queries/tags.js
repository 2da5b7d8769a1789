export default async function tags({ input, db }) {
  const { limit = 100 } = input;
  return db.all('SELECT tag, count(*) AS count FROM tags GROUP BY tag ORDER BY count(*) DESC, tag LIMIT ?', limit);
}
