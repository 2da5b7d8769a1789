/** The day in the time zone that the clock of the trigger has. */
const dayOf = (ms) => {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate())).toISOString().slice(0, 10);
};

export default async function weeklyReview({ ctx, automation }) {
  const [app] = automation.ref.split('/');
  const input = { day: dayOf(ctx.now), madeAt: ctx.now };
  const { body } = await ctx.tool('svc_write', { app, action: 'review', input });
  const { days, words, memories } = body;
  return { summary: `${days} of 7 days, ${words} words`, output: { days, words, memories } };
}
