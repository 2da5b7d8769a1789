/** Serves OpenAPI documents: of the gateway's routes, and of the tools of an app (decisions, section 14). */
import { noActiveVersion } from '../dispatch/apps.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../http/answers.ts';
import { type Route, route } from '../http/router.ts';
import { appDocument } from '../openapi/app-document.ts';
import { gatewayDocument } from '../openapi/gateway-document.ts';
import type { Services } from '../services.ts';

/** `allRoutes` are those that the document of the gateway describes. */
export function openApiRoutes({ apps, version }: Services, allRoutes: () => readonly Route[]): Route[] {
  // The same for as long as the gateway runs.
  let made: Buffer | null = null;
  return [
    route('GET', '/svc/_openapi.json', 'anyone', (exchange) => {
      made ??= Buffer.from(JSON.stringify(gatewayDocument(allRoutes(), version)));
      exchange.send(200, { 'cache-control': 'no-cache' }, made, JSON_HEADERS);
    }),
    route('GET', '/svc/:id/_openapi.json', 'read', async (exchange, { id = '' }) => {
      const manifest = await apps.manifest(id);
      if (manifest === null) throw noActiveVersion(id);
      answerJson(exchange, 200, appDocument(manifest), NO_STORE);
    }),
  ];
}
