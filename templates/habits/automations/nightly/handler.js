/** The day before, in the time zone that the clock of the trigger has. */
const dayBefore = (ms) => {
  const date = new Date(ms);
  return new Date(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate() - 1)).toISOString().slice(0, 10);
};

export default async function nightly({ ctx, automation }) {
  const [app] = automation.ref.split('/');
  const day = dayBefore(ctx.now);
  const board = await ctx.tool('svc_read', { app, query: 'board', input: { from: day, to: day, today: day } });
  const rollup = {
    habits: board.length,
    done: board.filter(({ days }) => days.length > 0).length,
    longest: Math.max(0, ...board.map(({ streak }) => streak)),
  };
  await ctx.tool('svc_write', { app, action: 'saveRollup', input: { day, ...rollup, madeAt: ctx.now } });
  return { summary: `${rollup.done} of ${rollup.habits} done`, output: rollup };
}
