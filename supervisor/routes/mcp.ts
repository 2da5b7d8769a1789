/** MCP over HTTP: the apps' tools for agents, of the whole gateway, of one app, or of a draft (decisions, section 12). */

import { SvcError } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/access.ts';
import { type Route, route } from '../http/router.ts';
import { checkOrigin, McpServer } from '../mcp/server.ts';
import { appTools, dispatcherTools, type McpTools, type Permit } from '../mcp/tools.ts';
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
  const permitOf =
    (of: Dispatcher, caller: Caller): Permit =>
    (capability, app) =>
      permit(of, caller, capability, app);
  return [
    route('POST', '/svc/_mcp', 'route', (exchange, _params, caller) => {
      if (caller.kind === 'session' && !caller.may('admin', null))
        throw new SvcError('FORBIDDEN', 'This address is for programs with a token; pages call tools through `svc`.');
      return serve(exchange, () =>
        dispatcherTools(dispatcher, {
          permit: permitOf(dispatcher, caller),
          describe: (body) => describe(dispatcher, caller, body),
          demandSql: (app) => demand(caller, 'manage', app),
          maySql: async () => (await dispatcher.apps.ids()).some((id) => caller.may('manage', id)),
        }),
      );
    }),
    route('POST', '/svc/:id/_mcp', 'read', async (exchange, { id = '' }, caller) => {
      checkAppId(id);
      await serve(exchange, () => appTools(dispatcher, id, permitOf(dispatcher, caller)));
    }),
    route('POST', '/svc/_draft/:sid/:id/_mcp', 'read', async (exchange, { sid = '', id = '' }, caller) => {
      checkAppId(id);
      const drafts = gitStoreOf(services).drafts.dispatcher(sid);
      await serve(exchange, () => appTools(drafts, id, permitOf(drafts, caller)));
    }),
  ];
}
