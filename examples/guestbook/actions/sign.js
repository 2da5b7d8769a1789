export default async function sign({ body, db }) {
  const entry = { name: body.name.trim(), message: body.message.trim(), signedAt: Date.now() };
  const { changes, lastInsertRowid } = await db.run(
    `INSERT INTO entries (name, message, signed_at) VALUES (@name, @message, @signedAt)
     ON CONFLICT (name, message) DO NOTHING`,
    entry,
  );
  if (changes === 0)
    return { status: 409, body: { path: '/message', message: 'You have already written exactly this.' } };
  return { status: 201, body: { id: lastInsertRowid, ...entry } };
}
