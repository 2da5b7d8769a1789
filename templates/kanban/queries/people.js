export default async function people({ db }) {
  return db.all('SELECT id, name FROM people ORDER BY name COLLATE NOCASE, id');
}
