/** Serves stored settings of apps and drafts, and the user's preferences over HTTP (specification, "Settings of pages"). */
import { checkAppId } from '../../../protocol/ids.ts';
import {
  changePreferences,
  type SettingsAnswer,
  showPreferences,
  showSettings,
  showUser,
  storeSettings,
} from '../../../protocol/routes/apps/settings-rows.ts';
import { readSettings, writeSettings } from '../../../storage/settings.ts';
import type { Params, Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

export function settingsRoutes(services: Services): Route[] {
  const { scopes, layout, preferences } = services;
  /** Where they are, and what they are for; a draft need not have data for that. Rejects with a draft's fault. */
  const found = async ({ sid, id = '' }: Params) => {
    checkAppId(id);
    const scope = scopes(sid).of(id);
    const { version, fault } = await scope.code();
    if (fault !== null) throw fault;
    const live = sid === undefined ? version?.versionId : undefined;
    return { paths: layout.app(scope.key), knobs: version?.knobs ?? [], ...(live && { versionId: live }) };
  };
  const answer = async ({ paths, ...of }: Awaited<ReturnType<typeof found>>): Promise<SettingsAnswer> => {
    const [prefs, settings] = await Promise.all([preferences.read(), readSettings(paths)]);
    return { ...of, prefs, settings };
  };
  return [
    ...serve(showSettings, async ({ params, caller }) => {
      // Its page shows itself as they say.
      const all = await answer(await found(params));
      // The user's preferences, and which version this is, are not for visitors.
      return caller.kind === 'public' ? { knobs: all.knobs, settings: all.settings, visitor: true } : all;
    }),
    ...serve(storeSettings, async ({ params, body }) => {
      const it = await found(params);
      await writeSettings(it.paths, body);
      return await answer(it);
    }),
    ...serve(showUser, async () => ({ id: await preferences.id() })),
    ...serve(showPreferences, async () => ({ prefs: await preferences.read() })),
    ...serve(changePreferences, async ({ body: { patch } }) => ({ prefs: await preferences.patch(patch) })),
  ];
}
