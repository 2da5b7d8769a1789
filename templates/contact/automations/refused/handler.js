export default async function refused({ ctx, input, automation }) {
  const [app] = automation.ref.split('/');
  const reason = String(input?.error?.message ?? 'The run failed.').slice(0, 500);
  await ctx.tool('svc_write', { app, action: 'noteRefused', input: { reason, refusedAt: ctx.now } });
  return { summary: reason };
}
