export default async function calendar({ input, db }) {
  return db.all('SELECT day, words FROM entries WHERE day BETWEEN @from AND @to ORDER BY day', input);
}
