/** Serves MCP over HTTP: the tools of all apps, of one app, or of a draft (specification, "MCP server"). */

import { SvcError } from '../../../protocol/errors.ts';
import { pagePath } from '../../../protocol/http/origins.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { serverOfAll, serverOfApp } from '../../../protocol/routes/agents/mcp-rows.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import { checkDraft } from '../../authoring/draft-check.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Scope, Scopes } from '../../dispatch/scope.ts';
import type { Exchange } from '../../edge/edge.ts';
import { AgentCaller } from '../../http/access/agent-tokens.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import type { Route } from '../../http/router.ts';
import { type AppPage, McpPages } from '../../mcp/app-page.ts';
import type { SessionOwner } from '../../mcp/mcp-sessions.ts';
import { checkOrigin, type ListsOf, McpServer } from '../../mcp/server.ts';
import { appTools, dispatcherTools, type McpCaller, type McpTools } from '../../mcp/tools.ts';
import type { Services } from '../../services.ts';
import { describe, permit } from '../app/tools-routes.ts';
import { parseJson, readBytes } from '../requests.ts';
import { serveRaw } from '../serve-row.ts';

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
  /** The check of a draft, for who may know what it finds. */
  const checkOf = ({ app, workspace, key }: Scope, caller: Caller) => {
    if (workspace === undefined || !may(caller, caller instanceof AgentCaller ? 'read' : 'manage', key))
      return undefined;
    return () => checkDraft(gitStoreOf(services), workspace, app);
  };
  const serveApp: Route['handle'] = async (exchange, { sid, id = '' }, caller, place) => {
    checkAppId(id);
    const scopes = services.scopes(sid);
    const scope = scopes.of(id);
    const { key } = scope;
    const isAgent = caller instanceof AgentCaller;
    // An agent sees only what it may use.
    if (!isAgent || caller.turn.app !== key) demand(caller, 'read', key);
    const client = services.clientOf(exchange, caller);
    const owner = { client, path: exchange.path, app: id };
    const maySql = (capability: 'read' | 'write') => isAgent && caller.hasSql(capability);
    const check = checkOf(scope, caller);
    const pageOf = async (): Promise<AppPage | null> => {
      const { version } = await scope.code();
      const origin = services.access?.places.originOf(place, scope);
      const home = origin === undefined ? undefined : `${origin}${pagePath(scope)}/`;
      return version && pages.of({ app: id, key, version, home });
    };
    const tools = async (showsPages: boolean): Promise<McpTools> => {
      const page = showsPages ? await pageOf() : null;
      return await appTools(dispatcher, scopes, id, callerOf(scopes, caller, client), { maySql, check, page });
    };
    await serve(exchange, owner, (showsPages) => ({ key, tools: () => tools(showsPages) }));
  };
  const serveAll: Route['handle'] = (exchange, _params, caller) => {
    if (caller.byCookie && !may(caller, 'admin', null))
      throw new SvcError('FORBIDDEN', 'This address is for programs with a token; pages call tools through `svc`.');
    const client = services.clientOf(exchange, caller);
    const tools = () => toolsOfCaller(services, caller, client);
    // Here a page would reach every app.
    return serve(exchange, { client, path: exchange.path, app: null }, () => ({ key: null, tools }));
  };
  return [
    ...serverOfAll.flatMap((row) => serveRaw(row, serveAll)),
    ...serverOfApp.flatMap((row) => serveRaw(row, serveApp)),
  ];
}

/** The tools of `/svc/_mcp` for a caller; those of a draft for an agent that works in one. */
export function toolsOfCaller(services: Services, caller: Caller, client: string): McpTools {
  const isAgent = caller instanceof AgentCaller;
  const scopes = services.scopes(isAgent ? caller.turn.draft : null);
  return dispatcherTools(services.dispatcher, scopes, {
    ...callerOf(scopes, caller, client),
    describe: (body) => describe(scopes, caller, body),
    mayCall: (capability) => mayAny(scopes, caller, capability),
    maySql: async (capability) =>
      isAgent
        ? caller.hasSql(capability) && (await mayAny(scopes, caller, capability))
        : await mayAny(scopes, caller, 'manage'),
  });
}

function callerOf(scopes: Scopes, caller: Caller, client: string): McpCaller {
  return {
    source: caller.kind === 'agent' ? 'agent' : 'handler',
    shown: (key) => caller.shown(key),
    client,
    // A host authorizes each request.
    mayRead: (key) => caller.kind === 'host' || may(caller, 'read', key),
    permit: (capability, app) => {
      if (caller instanceof AgentCaller) caller.guard(app, capability);
      return permit(scopes, caller, capability, scopes.of(app));
    },
    demandSql: (app, capability) => {
      if (caller instanceof AgentCaller) caller.guardSql(app, capability);
      else demand(caller, 'manage', scopes.of(app).key);
    },
    ...(caller instanceof AgentCaller && { confirm: caller.confirm }),
  };
}

/** Whether there is an app, or may come to be one, with which the caller may do this. */
async function mayAny(scopes: Scopes, caller: Caller, capability: Capability): Promise<boolean> {
  return may(caller, capability, null) || (await scopes.ids()).some((id) => may(caller, capability, scopes.of(id).key));
}
