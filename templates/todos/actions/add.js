export default async function add({ body, db, ctx }) {
  const todo = { title: body.title.trim(), createdAt: Date.now(), addedBy: ctx.user?.name ?? null };
  const { lastInsertRowid } = await db.run(
    `INSERT INTO todos (title, created_at, added_by, added_name)
     VALUES (@title, @createdAt, @person, @addedBy)`,
    { ...todo, person: ctx.user?.id ?? null },
  );
  return { status: 201, body: { id: lastInsertRowid, ...todo, doneAt: null, doneBy: null } };
}
