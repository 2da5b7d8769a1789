export default async function inbox({ ctx, input, automation }) {
  const [app] = automation.ref.split('/');
  const title = typeof input === 'string' ? input : input?.title;
  if (typeof title !== 'string' || title.trim() === '') throw new Error('Post a line of text, or {"title": "…"}.');
  const { body } = await ctx.tool('svc_write', { app, action: 'add', input: { title: title.slice(0, 200) } });
  return { summary: `added “${body.title}”`, output: { id: body.id } };
}
