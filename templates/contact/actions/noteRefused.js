/** So that a sender who posts nonsense all day fills nothing. */
const KEEP = 100;

export default async function noteRefused({ body, db }) {
  const [{ lastInsertRowid: id }] = await db.batch([
    ['INSERT INTO refused (reason, refused_at) VALUES (?, ?)', body.reason, body.refusedAt],
    ['DELETE FROM refused WHERE id <= (SELECT max(id) FROM refused) - ?', KEEP],
  ]);
  return { status: 201, body: { id, ...body } };
}
