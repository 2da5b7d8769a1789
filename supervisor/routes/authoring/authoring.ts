/**
 * Creates and changes apps over HTTP without an editor: blank ones, templates, names, automations (specification,
 * "Changes without an editor").
 */
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { changeApp } from '../../../protocol/routes/apps.ts';
import {
  cloneTemplate,
  duplicateApp,
  fetchApp,
  importApp,
  listTemplates,
  makeApp,
} from '../../../protocol/routes/new-apps.ts';
import { IN_SESSION } from '../../../protocol/routes/publications.ts';
import type { RouteRow } from '../../../protocol/routes/row.ts';
import { object, words } from '../../../protocol/shapes/schema.ts';
import { type Shape, shape } from '../../../protocol/shapes/shape.ts';
import type { AppChange } from '../../authoring/app-edits.ts';
import { type Authoring, type Staged, webhooksOf } from '../../authoring/authoring.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import { answerJson } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type Body, nameIn, paramsOf, publicOriginOf, queryOf, readBody, refuse } from '../requests.ts';
import { type Request, serve, serveRaw } from '../serve.ts';
import { shown, whereOf } from './staged.ts';

const WORDS = words(LIMITS.textChars);
type InSession = { sessionId?: string; publish?: boolean };
const OF_AUTOMATION = {
  manifest: { type: 'object', wanted: 'an object: members of automation.json' },
  handler: { type: 'string', minLength: 1, wanted: 'the text of handler.js' },
} as const;
const IMPORT = shape(importApp.query);
const NOTHING = shape(object({}, IN_SESSION));
const NEW_AUTOMATION = shape(object({ app: WORDS, id: WORDS }, { ...OF_AUTOMATION, ...IN_SESSION }));
const AUTOMATION = shape(object({}, { ...OF_AUTOMATION, ...IN_SESSION }));

export function authoringRoutes(services: Services): Route[] {
  const { templates, newApps } = services;
  const authoring = (): Authoring => gitStoreOf(services).authoring;
  const makerOf = ({ headers: { host }, caller }: Pick<Request<RouteRow>, 'headers' | 'caller'>) => ({
    origin: publicOriginOf(host, services),
    ...publisherIn(caller),
  });
  const read = async <T extends InSession>(
    exchange: Exchange,
    caller: Caller,
    shape: Shape<T>,
    permit?: (body: Body) => void,
  ) => {
    const headers = { host: exchange.header('host') };
    const body = await readBody(exchange, shape, permit);
    return { ...body, where: whereOf(services, { body, headers, caller }) };
  };
  return [
    ...serve(listTemplates, () => templates.list()),
    ...serve(makeApp, async (request) => {
      const { id, name } = request.body;
      return shownNew(await authoring().create(id, name, whereOf(services, request)));
    }),
    ...serve(cloneTemplate, async (request) => {
      const { templateId, id, name } = request.body;
      return shownNew(await authoring().clone(templateId, { id, name }, whereOf(services, request)));
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
        return shown(await authoring().change(id, change, where));
      const { versionId, migrationsApplied } = await newApps.change(id, change, where);
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
        answerJson(exchange, 201, await newApps.fromArchive(body, wanted, received));
      } finally {
        body.destroy();
      }
    }),
    ...serve(fetchApp, (request) => {
      const { id, name = null, url } = request.body;
      return newApps.fromAddress(url, { id, name, ...makerOf(request) });
    }),
    ...serve(duplicateApp, (request) => {
      const { id, name = null, data = false } = request.body;
      demand(request.caller, 'make', id);
      checkAppId(request.params.id);
      return newApps.duplicate(request.params.id, { id, name, ...makerOf(request) }, { data });
    }),
    route('POST', '/svc/_automations', 'route', async (exchange, _params, caller) => {
      const {
        app,
        id,
        manifest = {},
        where,
        ...draft
      } = await read(exchange, caller, NEW_AUTOMATION, (body) => demand(caller, 'manage', nameIn(body.app)));
      checkAppId(app);
      const staged = await authoring().createAutomation(app, { id, manifest, ...draft }, where);
      answerJson(exchange, 201, shownAutomation(staged, id));
    }),
    route('PATCH', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { manifest = {}, where, ...draft } = await read(exchange, caller, AUTOMATION);
      checkAppId(app);
      if (draft.handler === undefined && Object.keys(manifest).length === 0)
        refuse('manifest', 'Say what to change: members of "manifest", or "handler".');
      const staged = await authoring().updateAutomation(app, { id, manifest, ...draft }, where);
      answerJson(exchange, 200, shownAutomation(staged, id));
    }),
    route('DELETE', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { where } = await read(exchange, caller, NOTHING);
      checkAppId(app);
      const staged = await authoring().deleteAutomation(app, id, where);
      answerJson(exchange, 200, { ...shown(staged), id, deleted: true });
    }),
  ];
}

/** The message of a publication that nobody wrote one for. */
const wordsOf = (change: AppChange): string => `Change ${Object.keys(change).join(', ')}`;

function shownNew(staged: Staged) {
  return { ...shown(staged), webhooks: webhooksOf(staged) };
}

function shownAutomation(staged: Staged, id: string) {
  const webhook = webhooksOf(staged).find(({ automationId }) => automationId === id);
  return { ...shown(staged), id, ...(webhook === undefined ? {} : { webhook }) };
}
