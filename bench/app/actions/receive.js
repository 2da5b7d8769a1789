export default async function receive({ body, db }) {
  await db.run(
    `INSERT INTO events (id, event, received_at) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET event = excluded.event, received_at = excluded.received_at`,
    body.id,
    JSON.stringify(body.event),
    Date.now(),
  );
  return { body: { id: body.id } };
}
