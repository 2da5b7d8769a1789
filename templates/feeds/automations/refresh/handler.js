import { eachOf, FeedProblem, fetchFeed } from '../../lib/fetch-feed.js';

export default async function refresh({ ctx, log, automation }) {
  // The app may have been given another id than its template has.
  const [app] = automation.ref.split('/');
  const feeds = await ctx.tool('svc_read', { app, query: 'feeds' });
  const output = { checked: feeds.length, added: 0, failed: 0 };
  await eachOf(feeds, async ({ id, url, title, etag, modified }) => {
    let fetched;
    try {
      fetched = await fetchFeed(ctx.fetch, ctx.signal, { url, etag, modified });
    } catch (error) {
      if (!(error instanceof FeedProblem)) throw error;
      output.failed++;
      log.warn('a feed could not be fetched', { title, url, problem: error.message });
      fetched = { problem: error.message };
    }
    const { unchanged, ...input } = fetched;
    const { status, body } = await ctx.tool('svc_write', {
      app,
      action: 'store-items',
      input: { feed: id, checkedAt: ctx.now, ...input },
    });
    // 404: somebody unsubscribed meanwhile.
    if (status < 400) output.added += body.added;
  });
  const failed = output.failed === 0 ? '' : `, ${output.failed} could not be fetched`;
  return { summary: `${output.added} new in ${output.checked} feeds${failed}`, output };
}
