import { MESSAGE } from '../lib/messages.js';

/** Of a message that was there before they would be told what somebody else wrote. */
const NOT_OF_VISITORS = ['source', 'externalId'];

export default async function send({ body, db, ctx }) {
  const foreign = ctx.caller.kind === 'public' && NOT_OF_VISITORS.find((member) => member in body);
  if (foreign) return { status: 403, body: { message: `Visitors may not set “${foreign}”.`, path: `/${foreign}` } };
  const { source = 'form', externalId = null } = body;
  const row = { name: body.name.trim(), email: body.email.trim(), message: body.message.trim(), source, externalId };
  return db.transaction(async (tx) => {
    const { changes } = await tx.run(
      `INSERT INTO messages (name, email, message, source, external_id, received_at)
       VALUES (@name, @email, @message, @source, @externalId, @receivedAt)
       ON CONFLICT (external_id) DO NOTHING`,
      { ...row, receivedAt: Date.now() },
    );
    const stored = await tx.get(
      `SELECT ${MESSAGE} FROM messages WHERE CASE WHEN @externalId IS NULL THEN id = last_insert_rowid() ELSE external_id = @externalId END`,
      { externalId },
    );
    return { status: changes === 0 ? 200 : 201, body: stored };
  });
}
