/** Makes, changes and removes automations over HTTP (specification, "Changes without an editor"). */
import { checkAppId } from '../../../protocol/ids.ts';
import {
  changeAutomation,
  makeAutomation,
  removeAutomation,
} from '../../../protocol/routes/automations/automations-rows.ts';
import { type Authoring, type Staged, webhooksOf } from '../../authoring/authoring.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { recorded, shown, whereOf } from '../authoring/staged.ts';
import { refuse } from '../requests.ts';
import { serve } from '../serve-row.ts';

export function automationEditRoutes(services: Services): Route[] {
  const authoring = (): Authoring => gitStoreOf(services).authoring;
  return [
    ...serve(makeAutomation, async (request) => {
      const { app, id, manifest = {}, handler } = request.body;
      checkAppId(app);
      const draft = { id, manifest, ...(handler === undefined ? {} : { handler }) };
      const staged = await authoring().createAutomation(app, draft, whereOf(services, request));
      return shownWith(await recorded(services, request, staged), id);
    }),
    ...serve(changeAutomation, async (request) => {
      const { app, id } = request.params;
      const { manifest = {}, handler } = request.body;
      checkAppId(app);
      if (handler === undefined && Object.keys(manifest).length === 0)
        refuse('manifest', 'Say what to change: members of "manifest", or "handler".');
      const draft = { id, manifest, ...(handler === undefined ? {} : { handler }) };
      const staged = await authoring().updateAutomation(app, draft, whereOf(services, request));
      return shownWith(await recorded(services, request, staged), id);
    }),
    ...serve(removeAutomation, async (request) => {
      const { app, id } = request.params;
      checkAppId(app);
      const staged = await authoring().deleteAutomation(app, id, whereOf(services, request));
      return { ...shown(await recorded(services, request, staged)), id, deleted: true };
    }),
  ];
}

/** With the webhook of the automation, if it was created. */
function shownWith(staged: Staged, id: string) {
  const webhook = webhooksOf(staged).find(({ automationId }) => automationId === id);
  return { ...shown(staged), id, ...(webhook === undefined ? {} : { webhook }) };
}
