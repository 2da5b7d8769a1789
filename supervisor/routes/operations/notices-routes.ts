/** Serves the ways by which notices reach people over HTTP: their state, a test, browsers (specification, "Notices"). */
import {
  addBrowser,
  listChannels,
  makePushKey,
  removeBrowser,
  testChannels,
} from '../../../protocol/routes/operations/notices-rows.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

export function noticeRoutes({ notices }: Pick<Services, 'notices'>): Route[] {
  return [
    ...serve(listChannels, () => ({ channels: notices.status() })),
    ...serve(testChannels, async ({ body: { channel } }) => ({ results: await notices.test(channel) })),
    // Made on first need, so that gateways without such browsers have none.
    ...serve(makePushKey, async () => {
      const { publicKey } = await notices.browsers.key();
      return { publicKey };
    }),
    ...serve(addBrowser, async ({ body: { name = 'A browser', subscription } }) => {
      const { id, addedAt } = await notices.addBrowser(subscription, name);
      return { id, name, addedAt };
    }),
    ...serve(removeBrowser, async ({ params: { id } }) => {
      await notices.removeBrowser(id);
      return { id, deleted: true };
    }),
  ];
}
