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
import type { Caller } from '../../http/access/grants.ts';
import { personIdOf } from '../../http/access/person.ts';
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
    const { key } = scope;
    return { key, paths: layout.app(key), knobs: version?.knobs ?? [], ...(live && { versionId: live }) };
  };
  const answer = async (
    { paths, key, ...of }: Awaited<ReturnType<typeof found>>,
    caller: Caller,
  ): Promise<SettingsAnswer> => {
    const [prefs, settings] = await Promise.all([
      // Those of the machine's user are not theirs.
      caller.kind === 'guest' ? {} : preferences.read(personIdOf(caller) ?? undefined),
      readSettings(paths),
    ]);
    const { user } = caller.shown(key);
    return { ...of, prefs, settings, ...(user && { user }), ...(caller.kind === 'guest' && { guest: true }) };
  };
  return [
    ...serve(showSettings, async ({ params, caller }) => {
      // Its page shows itself as they say.
      const all = await answer(await found(params), caller);
      // The user's preferences, and which version this is, are not for visitors.
      return caller.kind === 'public' ? { knobs: all.knobs, settings: all.settings, visitor: true } : all;
    }),
    ...serve(storeSettings, async ({ params, body, caller }) => {
      const it = await found(params);
      await writeSettings(it.paths, body);
      return await answer(it, caller);
    }),
    ...serve(showUser, async ({ caller }) => ({ id: personIdOf(caller) ?? (await preferences.id()) })),
    ...serve(showPreferences, async ({ caller }) => ({
      prefs: await preferences.read(personIdOf(caller) ?? undefined),
    })),
    ...serve(changePreferences, async ({ body: { patch }, caller }) => ({
      prefs: await preferences.patch(patch, personIdOf(caller) ?? undefined),
    })),
  ];
}
