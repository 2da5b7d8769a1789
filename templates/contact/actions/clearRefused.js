export default async function clearRefused({ db }) {
  const { changes } = await db.run('DELETE FROM refused');
  return { body: { removed: changes } };
}
