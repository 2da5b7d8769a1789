export default async function digest({ ctx, automation }) {
  const [app] = automation.ref.split('/');
  const { open, done } = await ctx.tool('svc_read', { app, query: 'stats' });
  const waiting = await ctx.tool('svc_read', { app, query: 'list', input: { filter: 'open' } });
  const oldest = waiting.at(-1)?.title;
  const day = new Date(ctx.now).toISOString().slice(0, 10);
  await ctx.tool('svc_write', {
    app,
    action: 'saveDigest',
    input: { day, open, done, madeAt: ctx.now, ...(oldest === undefined ? {} : { oldest }) },
  });
  return { summary: `${open} open, ${done} done`, output: { open, done } };
}
