/** MCP over HTTP: the apps' tools for agents, of the whole gateway, of one app, or of a draft (decisions, section 12). */

import { SvcError } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/access.ts';
import { AgentCaller } from '../http/access/agent-caller.ts';
import { type Route, route } from '../http/router.ts';
import { checkOrigin, McpServer } from '../mcp/server.ts';
import { appTools, dispatcherTools, type McpCaller, type McpTools } from '../mcp/tools.ts';
import type { Services } from '../services.ts';
import { gitStoreOf } from './drafts.ts';
import { parseJson, readBytes } from './requests.ts';
import { describe, permit } from './tools.ts';

export function mcpRoutes(services: Services): Route[] {
  const { dispatcher } = services;
  const server = new McpServer(services);
  const serve = async (exchange: Exchange, open: () => McpTools | Promise<McpTools>): Promise<void> => {
    checkOrigin(exchange, services.config.corsOrigins);
    const message = parseJson(await readBytes(exchange, LIMITS.requestBodyBytes));
    await server.serve(exchange, message, await open());
  };
  const callerOf = (of: Dispatcher, caller: Caller): McpCaller => ({
    source: caller.kind === 'agent' ? 'agent' : 'handler',
    shown: caller.shown,
    permit: (capability, app) => {
      if (caller instanceof AgentCaller) caller.guard(app, capability);
      return permit(of, caller, capability, app);
    },
    demandSql: (app, capability) => {
      if (caller instanceof AgentCaller) caller.guard(app, capability);
      else demand(caller, 'manage', of.apps.keyOf(app));
    },
  });
  const serveApp = async (exchange: Exchange, of: Dispatcher, id: string, caller: Caller): Promise<void> => {
    checkAppId(id);
    const isAgent = caller instanceof AgentCaller;
    // An agent sees what it may use, which may be nothing.
    if (!isAgent || caller.grant.app !== of.apps.keyOf(id)) demand(caller, 'read', of.apps.keyOf(id));
    await serve(exchange, () => appTools(of, id, callerOf(of, caller), isAgent));
  };
  return [
    route('POST', '/svc/_mcp', 'route', (exchange, _params, caller) => {
      if (caller.kind === 'session' && !caller.may('admin', null))
        throw new SvcError('FORBIDDEN', 'This address is for programs with a token; pages call tools through `svc`.');
      const isAgent = caller instanceof AgentCaller;
      const draft = isAgent ? caller.grant.draft : null;
      const of = draft === null ? dispatcher : gitStoreOf(services).drafts.dispatcher(draft);
      return serve(exchange, () =>
        dispatcherTools(of, {
          ...callerOf(of, caller),
          describe: (body) => describe(of, caller, body),
          maySql: async () => isAgent || (await of.apps.ids()).some((id) => caller.may('manage', id)),
        }),
      );
    }),
    route('POST', '/svc/:id/_mcp', 'route', async (exchange, { id = '' }, caller) => {
      await serveApp(exchange, dispatcher, id, caller);
    }),
    route('POST', '/svc/_draft/:sid/:id/_mcp', 'route', async (exchange, { sid = '', id = '' }, caller) => {
      await serveApp(exchange, gitStoreOf(services).drafts.dispatcher(sid), id, caller);
    }),
  ];
}
