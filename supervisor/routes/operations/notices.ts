/** Serves the ways by which notices reach people over HTTP, without their addresses: their state, a test, browsers (decisions, section 19). */
import { LIMITS } from '../../../protocol/limits.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { optionalText, readJson } from '../requests.ts';

export function noticeRoutes({ notices }: Pick<Services, 'notices'>): Route[] {
  return [
    route('GET', '/svc/_notices', 'admin', (exchange) =>
      answerJson(exchange, 200, { channels: notices.status() }, NO_STORE),
    ),
    route('POST', '/svc/_notices/test', 'admin', async (exchange) => {
      const channel = optionalText(await readJson(exchange), 'channel');
      answerJson(exchange, 200, { results: await notices.test(channel) }, NO_STORE);
    }),
    // Made on first need, so that gateways without such browsers have none.
    route('POST', '/svc/_notices/push-key', 'admin', async (exchange) => {
      const { publicKey } = await notices.browsers.key();
      answerJson(exchange, 200, { publicKey }, NO_STORE);
    }),
    route('POST', '/svc/_notices/browsers', 'admin', async (exchange) => {
      const body = await readJson(exchange);
      const name = optionalText(body, 'name', LIMITS.noticeTitleChars) ?? 'A browser';
      const { id, addedAt } = await notices.addBrowser(body.subscription, name);
      answerJson(exchange, 201, { id, name, addedAt });
    }),
    route('DELETE', '/svc/_notices/browsers/:id', 'admin', async (exchange, { id = '' }) => {
      await notices.removeBrowser(id);
      answerJson(exchange, 200, { id, deleted: true });
    }),
  ];
}
