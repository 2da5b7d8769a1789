export default async function series({ input, db }) {
  const { seconds = 60 } = input;
  const now = Date.now();
  const first = Math.floor(now / 1000) - seconds + 1;
  const { total } = await db.get('SELECT total FROM counter');
  const rows = await db.all('SELECT second, count FROM seconds WHERE second >= ?', first);
  const counts = new Array(seconds).fill(0);
  for (const { second, count } of rows) counts[second - first] = count;
  return { total, now, counts };
}
