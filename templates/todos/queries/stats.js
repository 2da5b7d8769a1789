export default async function stats({ db }) {
  return db.get('SELECT count(*) AS total, count(*) - count(done_at) AS open, count(done_at) AS done FROM todos');
}
