/**
 * Creates and changes apps over HTTP without an editor: blank ones, templates, names (specification, "Changes without an
 * editor").
 */
import type { UploadAnswer } from '../../../protocol/answer-types.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { changeApp } from '../../../protocol/routes/apps/apps-rows.ts';
import {
  cloneTemplate,
  duplicateApp,
  fetchApp,
  importApp,
  listTemplates,
  makeApp,
} from '../../../protocol/routes/apps/new-apps-rows.ts';
import type { RouteRow } from '../../../protocol/routes/row.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import type { AppChange } from '../../authoring/app-edits.ts';
import { type Authoring, type Staged, webhooksOf } from '../../authoring/authoring.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import { answerJson } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { paramsOf, publicOriginOf, queryOf, refuse } from '../requests.ts';
import { type Request, serve, serveRaw } from '../serve-row.ts';
import { recorded, shown, whereOf } from './staged.ts';

const IMPORT = shape(importApp.query);

export function authoringRoutes(services: Services): Route[] {
  const { templates, newApps } = services;
  const authoring = (): Authoring => gitStoreOf(services).authoring;
  const makerOf = ({ headers: { host }, caller }: Pick<Request<RouteRow>, 'headers' | 'caller'>) => ({
    origin: publicOriginOf(host, services),
    ...publisherIn(caller),
  });
  const recordNew = async <T extends UploadAnswer>(caller: Caller, made: T): Promise<T> => {
    await services.audit.record(caller, 'app.published', made.id, { version: made.versionId });
    return made;
  };
  return [
    ...serve(listTemplates, () => templates.list()),
    ...serve(makeApp, async (request) => {
      const { id, name } = request.body;
      return shownNew(
        await recorded(services, request, await authoring().create(id, name, whereOf(services, request))),
      );
    }),
    ...serve(cloneTemplate, async (request) => {
      const { templateId, id, name } = request.body;
      const staged = await authoring().clone(templateId, { id, name }, whereOf(services, request));
      return shownNew(await recorded(services, request, staged));
    }),
    ...serve(changeApp, async (request) => {
      const { id } = request.params;
      const { sessionId, publish = false, message: given, ...change } = request.body;
      checkAppId(id);
      if (Object.keys(change).length === 0)
        refuse('name', 'Say what to change: "name", "description", "icon" or "public".');
      const message = given ?? wordsOf(change);
      const where = { ...whereOf(services, request), message };
      if (services.gitStore !== null || !publish || sessionId !== undefined)
        return shown(await recorded(services, request, await authoring().change(id, change, where)));
      const { versionId, migrationsApplied } = await newApps.change(id, change, where);
      await services.audit.record(request.caller, 'app.published', id, { version: versionId });
      return { app: id, sessionId: null, staged: false, version: versionId, migrationsApplied };
    }),
    ...serveRaw(importApp, async (exchange, _params, caller) => {
      const query = queryOf(exchange);
      const origin = publicOriginOf(exchange.header('host'), services);
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        demand(caller, 'make', query.get('id'));
        const { id, name = null } = paramsOf(query, IMPORT);
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'make', id);
        const wanted = { id, name, origin, ...publisherIn(caller) };
        answerJson(exchange, 201, await recordNew(caller, await newApps.fromArchive(body, wanted, received)));
      } finally {
        body.destroy();
      }
    }),
    ...serve(fetchApp, async (request) => {
      const { id, name = null, url } = request.body;
      return recordNew(request.caller, await newApps.fromAddress(url, { id, name, ...makerOf(request) }));
    }),
    ...serve(duplicateApp, async (request) => {
      const { id, name = null, data = false } = request.body;
      demand(request.caller, 'make', id);
      checkAppId(request.params.id);
      const wanted = { id, name, ...makerOf(request) };
      return recordNew(request.caller, await newApps.duplicate(request.params.id, wanted, { data }));
    }),
  ];
}

/** The message of a publication that nobody wrote one for. */
const wordsOf = (change: AppChange): string => `Change ${Object.keys(change).join(', ')}`;

function shownNew(staged: Staged) {
  return { ...shown(staged), webhooks: webhooksOf(staged) };
}
