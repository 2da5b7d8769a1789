/**
 * Serves chat windows over HTTP: messages and their turns, lists, histories, answers to agents (specification, "Per-app
 * surface"; decisions, sections 8 and 12).
 */
import type { ChatMode } from '../../../protocol/agents/agents.ts';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId, isSessionId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Caller, demand } from '../../http/access/access.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Params, type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { gitStoreOf } from '../authoring/drafts.ts';
import { type Body, integerOf, queryOf, readJson, refuse } from '../requests.ts';
import { answerTurn, flagOf, requestOf, turnRoutes } from './turns.ts';

export function chatRoutes(services: Services): Route[] {
  return [...routesBelow(services, '/svc/:id'), ...routesBelow(services, '/svc/_draft/:sid/:id')];
}

function routesBelow(services: Services, base: string): Route[] {
  const { apps, chat } = services;
  /** Rejects unless there is such an app or draft. */
  const checked = async ({ id = '', sid }: Params, wid = ''): Promise<SessionName> => {
    checkAppId(id);
    if (sid === undefined) await apps.registered(id);
    else await gitStoreOf(services).drafts.draft(sid, id);
    return { kind: 'window', app: id, id: wid, ...(sid === undefined ? {} : { draft: sid }) };
  };
  const windowOf = async (params: Params, caller: Caller): Promise<SessionName> => {
    const { wid = '' } = params;
    if (!isSessionId(wid)) throw new SvcError('UNKNOWN_WINDOW', 'This cannot be the id of a chat window.');
    const name = await checked(params, wid);
    permit(caller, name.app, await chat.modeOf(name));
    return name;
  };
  const window = `${base}/_chat/windows/:wid`;
  return [
    route('POST', `${base}/_chat`, 'chat', async (exchange, params, caller) => {
      const body = await readJson(exchange);
      const name = await checked(params, windowIdOf(body));
      const request = requestOf(body);
      if (params.sid === undefined) await apps.get(name.app);
      const isDetached = flagOf(body, 'detach');
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        limited: !caller.may('manage', name.app),
        permit: (mode) => permit(caller, name.app, mode),
      });
      await answerTurn(services.changes.readers, exchange, held, isDetached);
    }),
    route('GET', `${base}/_chat/windows`, 'chat', async (exchange, params, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      const { app, draft } = await checked(params);
      const isManager = caller.may('manage', app);
      const windows = (await chat.list(app, draft)).filter(({ mode }) => isManager || mode !== 'full');
      const before = query.get('before');
      const at = before === null ? 0 : windows.findIndex(({ windowId }) => windowId === before) + 1;
      if (before !== null && at === 0) refuse('before', '"before" must be the id of a chat window.');
      answerJson(exchange, 200, windows.slice(at, at + limit), NO_STORE);
    }),
    route('GET', `${window}/history`, 'chat', async (exchange, params, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRowsMax, LIMITS.listRowsMax);
      const before = integerOf(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
      const rows = await chat.history(await windowOf(params, caller));
      answerJson(exchange, 200, rows.slice(0, before - 1).slice(-limit), NO_STORE);
    }),
    route('DELETE', window, 'chat', async (exchange, params, caller) => {
      const name = await windowOf(params, caller);
      await chat.remove(name);
      answerJson(exchange, 200, { windowId: name.id, deleted: true });
    }),
    ...turnRoutes(services, window, 'chat', windowOf),
  ];
}

/** The files of an app are for those who manage it. Throws `FORBIDDEN`. */
function permit(caller: Caller, app: string, mode: ChatMode): void {
  if (mode === 'full') demand(caller, 'manage', app);
}

function windowIdOf({ windowId }: Body): string {
  if (typeof windowId === 'string' && isSessionId(windowId)) return windowId;
  return refuse('windowId', '"windowId" must be 1 to 64 of A-Z, a-z, 0-9, "-" and "_".');
}
