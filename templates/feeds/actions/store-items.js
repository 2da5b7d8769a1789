import { webAddress } from '../lib/feed.js';
import { noFeed, storeFetched } from '../lib/store.js';

export default async function storeItems({ body, db }) {
  const { feed, checkedAt, items, ...fetched } = body;
  // The page makes links of them, whoever called.
  const safe = items?.map((item) => ({ ...item, url: webAddress(item.url) }));
  const site = webAddress(fetched.site);
  const added = await db.transaction((tx) => storeFetched(tx, feed, { ...fetched, site, items: safe }, checkedAt));
  return added === null ? noFeed(feed) : { body: { added } };
}
