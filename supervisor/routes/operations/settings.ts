/** Serves stored settings of apps and drafts, and the user's preferences over HTTP (specification, "Settings of pages"). */
import { checkAppId } from '../../../protocol/ids.ts';
import { object } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { readSettings, writeSettings } from '../../../storage/settings.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Params, type Route, route, withDrafts } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { readBody, readJson } from '../requests.ts';

const PATCH = shape(object({ patch: { type: 'object', wanted: 'an object' } }));

export function settingsRoutes(services: Services): Route[] {
  const { scopes, layout, preferences } = services;
  /** Where they are, and what they are for; a draft need not have data for that. Rejects with a draft's fault. */
  const found = async ({ sid, id = '' }: Params) => {
    checkAppId(id);
    const scope = scopes(sid).of(id);
    const { version, fault } = await scope.code();
    if (fault !== null) throw fault;
    return { paths: layout.app(scope.key), knobs: version?.knobs, versionId: sid ? undefined : version?.versionId };
  };
  const answer = async ({ paths, knobs, versionId }: Awaited<ReturnType<typeof found>>) => {
    const [prefs, settings] = await Promise.all([preferences.read(), readSettings(paths)]);
    return { knobs, prefs, settings, versionId };
  };
  return [
    ...withDrafts(
      {
        // Its page shows itself as they say.
        ...route('GET', '/svc/_apps/:id/settings', 'read', async (exchange, params, caller) => {
          const { knobs, settings, ...own } = await answer(await found(params));
          // The user's preferences, and which version this is, are not for visitors.
          const more = caller.kind === 'public' ? { visitor: true } : own;
          answerJson(exchange, 200, { knobs, settings, ...more }, NO_STORE);
        }),
        visitors: 'page',
      },
      route('PUT', '/svc/_apps/:id/settings', 'settings', async (exchange, params) => {
        const settings = await readJson(exchange);
        const it = await found(params);
        await writeSettings(it.paths, settings);
        answerJson(exchange, 200, await answer(it));
      }),
    ),
    route('GET', '/_svc-user/id', 'settings', async (exchange) =>
      answerJson(exchange, 200, { id: await preferences.id() }),
    ),
    route('GET', '/_svc-user/prefs', 'settings', async (exchange) =>
      answerJson(exchange, 200, { prefs: await preferences.read() }),
    ),
    route('PUT', '/_svc-user/prefs', 'admin', async (exchange) => {
      const { patch } = await readBody(exchange, PATCH);
      answerJson(exchange, 200, { prefs: await preferences.patch(patch) });
    }),
  ];
}
