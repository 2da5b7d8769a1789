export default async function reset({ db }) {
  const was = await db.transaction(async (tx) => {
    const { total } = await tx.get('SELECT total FROM counter');
    await tx.run('UPDATE counter SET total = 0');
    await tx.run('DELETE FROM seconds');
    return total;
  });
  return { body: { was } };
}
