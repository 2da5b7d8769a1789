const DAY_MS = 86_400_000;

/** The day in the time zone that the clock of the trigger has. */
const dayOf = (ms) => {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate())).toISOString().slice(0, 10);
};

export default async function weeklyReview({ ctx, automation }) {
  const [app] = automation.ref.split('/');
  const read = (query, input) => ctx.tool('svc_read', { app, query, input });
  const day = dayOf(ctx.now);
  const week = [6, 5, 4, 3, 2, 1, 0].map((ago) => new Date(Date.parse(day) - ago * DAY_MS).toISOString().slice(0, 10));
  const written = await read('calendar', { from: week[0], to: day });
  const memories = (await Promise.all(week.map((each) => read('onThisDay', { day: each })))).flat().length;
  const review = { days: written.length, words: written.reduce((sum, { words }) => sum + words, 0), memories };
  await ctx.tool('svc_write', { app, action: 'saveReview', input: { day, ...review, madeAt: ctx.now } });
  return { summary: `${review.days} of 7 days, ${review.words} words`, output: review };
}
