const HISTORY_SECONDS = 3600;

export default async function increment({ body, db }) {
  const { by = 1 } = body;
  const second = Math.floor(Date.now() / 1000);
  await db.batch([
    ['UPDATE counter SET total = total + ?', by],
    ['INSERT INTO seconds VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count', second, by],
    ['DELETE FROM seconds WHERE second <= ?', second - HISTORY_SECONDS],
  ]);
  return { body: { by } };
}
