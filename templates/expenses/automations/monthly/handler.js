const amount = (cents) => (cents / 100).toFixed(2);

/** The month before the one that the fire is in, by the clock of the gateway's time zone, as the cron trigger is. */
function monthBefore(now) {
  const at = new Date(now);
  const first = new Date(at.getFullYear(), at.getMonth() - 1, 1);
  return `${String(first.getFullYear()).padStart(4, '0')}-${String(first.getMonth() + 1).padStart(2, '0')}`;
}

export default async function monthly({ ctx, automation }) {
  // The app may have been given another id than its template has.
  const [app] = automation.ref.split('/');
  const month = monthBefore(ctx.now);
  const { total, count, categories } = await ctx.tool('svc_read', { app, query: 'month', input: { month } });
  const over = categories.filter(({ budget, spent }) => budget !== null && spent > budget);
  const sentences = [`${amount(total)} in ${count} ${count === 1 ? 'expense' : 'expenses'}.`];
  if (count > 0) sentences.push(`Most went to ${categories[0].name}: ${amount(categories[0].spent)}.`);
  for (const { name, spent, budget } of over) sentences.push(`${name} is ${amount(spent - budget)} over its budget.`);
  const text = sentences.join(' ').slice(0, 2000);
  await ctx.tool('svc_write', {
    app,
    action: 'saveSummary',
    input: { month, total, count, text, madeAt: ctx.now },
  });
  return { summary: `${month}: ${text}`, output: { month, total, over: over.map(({ name }) => name) } };
}
