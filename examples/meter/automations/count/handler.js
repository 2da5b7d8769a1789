export default async function count({ ctx, input }) {
  const { by = 1 } = input ?? {};
  const { body } = await ctx.tool('svc_write', { app: 'meter', action: 'increment', input: { by } });
  return { summary: `counted ${body.by}` };
}
