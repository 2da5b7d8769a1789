/**
 * Serves the ways by which notices reach people over HTTP, without their addresses: their state, a test, browsers
 * (specification, "Notices").
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { object, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { readBody } from '../requests.ts';

const TEST = shape(object({}, { channel: words(LIMITS.textChars) }));
const BROWSER = shape(object({}, { name: words(LIMITS.noticeTitleChars), subscription: {} }));

export function noticeRoutes({ notices }: Pick<Services, 'notices'>): Route[] {
  return [
    route('GET', '/svc/_notices', 'admin', (exchange) =>
      answerJson(exchange, 200, { channels: notices.status() }, NO_STORE),
    ),
    route('POST', '/svc/_notices/test', 'admin', async (exchange) => {
      const { channel } = await readBody(exchange, TEST);
      answerJson(exchange, 200, { results: await notices.test(channel) }, NO_STORE);
    }),
    // Made on first need, so that gateways without such browsers have none.
    route('POST', '/svc/_notices/push-key', 'admin', async (exchange) => {
      const { publicKey } = await notices.browsers.key();
      answerJson(exchange, 200, { publicKey }, NO_STORE);
    }),
    route('POST', '/svc/_notices/browsers', 'admin', async (exchange) => {
      const { name = 'A browser', subscription } = await readBody(exchange, BROWSER);
      const { id, addedAt } = await notices.addBrowser(subscription, name);
      answerJson(exchange, 201, { id, name, addedAt });
    }),
    route('DELETE', '/svc/_notices/browsers/:id', 'admin', async (exchange, { id = '' }) => {
      await notices.removeBrowser(id);
      answerJson(exchange, 200, { id, deleted: true });
    }),
  ];
}
