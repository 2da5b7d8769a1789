/** Serves MCP over HTTP: the tools of all apps, of one app, or of a draft (decisions, section 12). */

import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId, draftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { pagePath } from '../../../protocol/origins.ts';
import { checkDraft } from '../../authoring/draft-check.ts';
import type { Dispatcher } from '../../dispatch/dispatcher.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/access.ts';
import { AgentCaller } from '../../http/access/agent-caller.ts';
import type { Capability } from '../../http/access/grants.ts';
import type { Place } from '../../http/access/places.ts';
import { type Route, route } from '../../http/router.ts';
import { type AppPage, McpPages } from '../../mcp/app-page.ts';
import { checkOrigin, type ListsOf, McpServer } from '../../mcp/server.ts';
import type { SessionOwner } from '../../mcp/sessions.ts';
import { appTools, type DraftTools, dispatcherTools, type McpCaller, type McpTools } from '../../mcp/tools.ts';
import type { Services } from '../../services.ts';
import { describe, permit } from '../app/tools.ts';
import { gitStoreOf } from '../authoring/drafts.ts';
import { parseJson, readBytes } from '../requests.ts';

export function mcpRoutes(services: Services): Route[] {
  const { dispatcher } = services;
  const server = new McpServer(services);
  const pages = new McpPages(services);
  const serve = async (exchange: Exchange, owner: SessionOwner, lists: ListsOf): Promise<void> => {
    checkOrigin(exchange, services.config.corsOrigins);
    if (exchange.method === 'DELETE') server.end(exchange, owner);
    else if (exchange.method !== 'POST') server.open(exchange, lists, owner);
    else {
      const message = parseJson(await readBytes(exchange, LIMITS.requestBodyBytes));
      await server.serve(exchange, message, lists, owner);
    }
  };
  const draftTools = (session: string, app: string, caller: Caller): DraftTools => {
    const gitStore = gitStoreOf(services);
    const needed = caller instanceof AgentCaller ? 'read' : 'manage';
    return {
      tools: () => gitStore.drafts.toolsOf(session, app),
      ...(caller.may(needed, draftKey(session, app)) && { check: () => checkDraft(gitStore, session, app) }),
    };
  };
  const serveApp = async (
    exchange: Exchange,
    session: string | null,
    id: string,
    { caller, place }: { caller: Caller; place: Place },
  ): Promise<void> => {
    checkAppId(id);
    const of = session === null ? dispatcher : gitStoreOf(services).drafts.dispatcher(session);
    const isAgent = caller instanceof AgentCaller;
    // An agent sees only what it may use.
    if (!isAgent || caller.grant.app !== of.apps.keyOf(id)) demand(caller, 'read', of.apps.keyOf(id));
    const client = services.clientOf(exchange, caller);
    const owner = { client, path: exchange.path, app: id };
    const maySql = (capability: 'read' | 'write') => isAgent && caller.hasSql(capability);
    const draft = session === null ? null : draftTools(session, id, caller);
    const key = of.apps.keyOf(id);
    const pageOf = async (): Promise<AppPage | null> => {
      const version =
        session === null
          ? (await of.apps.get(id)).active
          : (await gitStoreOf(services).drafts.toolsOf(session, id)).version;
      const address = { app: id, ...(session === null ? {} : { session }) };
      const origin = services.access?.places.originOf(place, address);
      const home = origin === undefined ? undefined : `${origin}${pagePath(address)}/`;
      return version && pages.of({ app: id, key, version, home });
    };
    const tools = async (showsPages: boolean): Promise<McpTools> => {
      const page = showsPages ? await pageOf() : null;
      return await appTools(of, id, callerOf(of, caller, client), { maySql, draft, page });
    };
    await serve(exchange, owner, (showsPages) => ({ key, tools: () => tools(showsPages) }));
  };
  const routes = (path: string, handle: Route['handle']): Route[] =>
    (['POST', 'GET', 'DELETE'] as const).map((method) => route(method, path, 'route', handle));
  return [
    ...routes('/svc/_mcp', (exchange, _params, caller) => {
      if (caller.kind === 'session' && !caller.may('admin', null))
        throw new SvcError('FORBIDDEN', 'This address is for programs with a token; pages call tools through `svc`.');
      const client = services.clientOf(exchange, caller);
      const tools = () => toolsOfCaller(services, caller, client);
      // Here a page would reach every app.
      return serve(exchange, { client, path: exchange.path, app: null }, () => ({ key: null, tools }));
    }),
    ...routes('/svc/:id/_mcp', async (exchange, { id = '' }, caller, place) => {
      await serveApp(exchange, null, id, { caller, place });
    }),
    ...routes('/svc/_draft/:sid/:id/_mcp', async (exchange, { sid = '', id = '' }, caller, place) => {
      await serveApp(exchange, sid, id, { caller, place });
    }),
  ];
}

/** The tools of `/svc/_mcp` for a caller; those of a draft for an agent that works in one. */
export function toolsOfCaller(services: Services, caller: Caller, client: string): McpTools {
  const isAgent = caller instanceof AgentCaller;
  const draft = isAgent ? caller.grant.draft : null;
  const of = draft === null ? services.dispatcher : gitStoreOf(services).drafts.dispatcher(draft);
  return dispatcherTools(of, {
    ...callerOf(of, caller, client),
    describe: (body) => describe(of, caller, body),
    mayCall: (capability) => mayAny(of, caller, capability),
    maySql: async (capability) =>
      isAgent
        ? caller.hasSql(capability) && (await mayAny(of, caller, capability))
        : await mayAny(of, caller, 'manage'),
  });
}

function callerOf(of: Dispatcher, caller: Caller, client: string): McpCaller {
  return {
    source: caller.kind === 'agent' ? 'agent' : 'handler',
    shown: (key) => caller.shown(key),
    client,
    // A host authorizes each request.
    mayRead: (key) => caller.kind === 'host' || caller.may('read', key),
    permit: (capability, app) => {
      if (caller instanceof AgentCaller) caller.guard(app, capability);
      return permit(of, caller, capability, app);
    },
    demandSql: (app, capability) => {
      if (caller instanceof AgentCaller) caller.guardSql(app, capability);
      else demand(caller, 'manage', of.apps.keyOf(app));
    },
    ...(caller instanceof AgentCaller && { confirm: caller.confirm }),
  };
}

/** Whether there is an app, or may come to be one, with which the caller may do this. */
async function mayAny({ apps }: Dispatcher, caller: Caller, capability: Capability): Promise<boolean> {
  return caller.may(capability, null) || (await apps.ids()).some((id) => caller.may(capability, apps.keyOf(id)));
}
