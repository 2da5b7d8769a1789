/** What a page is set to: an app's stored settings, and the user's preferences (decisions, sections 5 and 8). */
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { readSettings, writeSettings } from '../../storage/settings.ts';
import { answerJson } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { readJson } from './requests.ts';

export function settingsRoutes(services: Services): Route[] {
  const { apps, layout, preferences } = services;
  const answer = async (id: string) => {
    const { active } = await apps.get(id);
    const [prefs, settings] = await Promise.all([preferences.read(), readSettings(layout.app(id))]);
    return { knobs: active.knobs, prefs, settings, versionId: active.versionId };
  };
  return [
    {
      method: 'GET',
      path: '/svc/_apps/:id/settings',
      needs: 'settings',
      summary:
        "An app's knobs, the user's preferences, and the app's stored settings, in the order in which they apply; and its version.",
      handle: async (exchange, { id = '' }) => {
        checkAppId(id);
        answerJson(exchange, 200, await answer(id), { 'cache-control': 'no-store' });
      },
    },
    {
      method: 'PUT',
      path: '/svc/_apps/:id/settings',
      needs: 'settings',
      summary: "Replace an app's stored settings with the object that is sent.",
      handle: async (exchange, { id = '' }) => {
        const settings = await readJson(exchange);
        checkAppId(id);
        await apps.get(id);
        await writeSettings(layout.app(id), settings);
        answerJson(exchange, 200, await answer(id));
      },
    },
    {
      method: 'GET',
      path: '/_svc-user/id',
      needs: 'settings',
      summary: 'The id of the user of this gateway.',
      handle: async (exchange) => answerJson(exchange, 200, { id: await preferences.id() }),
    },
    {
      method: 'GET',
      path: '/_svc-user/prefs',
      needs: 'settings',
      summary: "The user's preferences.",
      handle: async (exchange) => answerJson(exchange, 200, { prefs: await preferences.read() }),
    },
    {
      method: 'PUT',
      path: '/_svc-user/prefs',
      needs: 'admin',
      summary: 'Change preferences: `{ "patch" }`, in which null deletes.',
      handle: async (exchange) => {
        const { patch } = await readJson(exchange);
        if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) {
          throw new SvcError('BAD_REQUEST', '"patch" must be an object.', { path: 'patch' });
        }
        answerJson(exchange, 200, { prefs: await preferences.patch(patch as Record<string, unknown>) });
      },
    },
  ];
}
