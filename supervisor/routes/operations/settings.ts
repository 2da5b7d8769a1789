/** Serves an app's stored settings and the user's preferences over HTTP (decisions, sections 5 and 8). */
import { checkAppId } from '../../../protocol/ids.ts';
import { readSettings, writeSettings } from '../../../storage/settings.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { readJson, refuse } from '../requests.ts';

export function settingsRoutes(services: Services): Route[] {
  const { apps, layout, preferences } = services;
  const answer = async (id: string) => {
    const { active } = await apps.get(id);
    const [prefs, settings] = await Promise.all([preferences.read(), readSettings(layout.app(id))]);
    return { knobs: active.knobs, prefs, settings, versionId: active.versionId };
  };
  return [
    {
      // Its page shows itself as they say.
      ...route('GET', '/svc/_apps/:id/settings', 'read', async (exchange, { id = '' }, caller) => {
        checkAppId(id);
        const { knobs, settings, ...own } = await answer(id);
        // The user's preferences, and which version this is, are not for visitors.
        const more = caller.kind === 'public' ? { visitor: true } : own;
        answerJson(exchange, 200, { knobs, settings, ...more }, NO_STORE);
      }),
      visitors: 'page',
    },
    route('PUT', '/svc/_apps/:id/settings', 'settings', async (exchange, { id = '' }) => {
      const settings = await readJson(exchange);
      checkAppId(id);
      await apps.get(id);
      await writeSettings(layout.app(id), settings);
      answerJson(exchange, 200, await answer(id));
    }),
    route('GET', '/_svc-user/id', 'settings', async (exchange) =>
      answerJson(exchange, 200, { id: await preferences.id() }),
    ),
    route('GET', '/_svc-user/prefs', 'settings', async (exchange) =>
      answerJson(exchange, 200, { prefs: await preferences.read() }),
    ),
    route('PUT', '/_svc-user/prefs', 'admin', async (exchange) => {
      const { patch } = await readJson(exchange);
      if (typeof patch !== 'object' || patch === null || Array.isArray(patch))
        refuse('patch', '"patch" must be an object.');
      answerJson(exchange, 200, { prefs: await preferences.patch(patch as Record<string, unknown>) });
    }),
  ];
}
