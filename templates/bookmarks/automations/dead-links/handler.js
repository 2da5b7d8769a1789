const WAIT_MS = 10_000;
const AT_A_TIME = 10;
/** Leaves time to end by itself within the five minutes of a run; the next run goes on with the rest. */
const MOST_ROUNDS = 20;

/** The status, 0 for no answer. Some servers refuse HEAD and answer GET. */
async function statusOf(url, ctx) {
  const ask = async (method) => {
    const response = await ctx.fetch(url, { method, signal: AbortSignal.timeout(WAIT_MS) });
    await response.body?.cancel();
    return response.status;
  };
  try {
    const status = await ask('HEAD');
    return status < 400 ? status : await ask('GET');
  } catch {
    return 0;
  }
}

export default async function deadLinks({ ctx, automation, log }) {
  const [app] = automation.ref.split('/');
  let checked = 0;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const input = { since: ctx.now, limit: AT_A_TIME };
    const links = await ctx.tool('svc_read', { app, query: 'unchecked', input });
    if (links.length === 0) break;
    const checks = await Promise.all(links.map(async (link) => ({ ...link, status: await statusOf(link.url, ctx) })));
    await ctx.tool('svc_write', { app, action: 'saveChecks', input: { checks, checkedAt: ctx.now } });
    checked += checks.length;
    log.info('checked', { checked });
  }
  const { dead } = await ctx.tool('svc_read', { app, query: 'stats' });
  return { summary: `${checked} checked, ${dead} dead`, output: { checked, dead } };
}
