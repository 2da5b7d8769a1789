/**
 * Serves chat windows over HTTP: messages and their turns, lists, histories, answers to agents (specification, "Chat windows").
 */
import type { ChatMode } from '../../../protocol/agents/agents.ts';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isSessionId, scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { formatted, object } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Params, type Route, route, withDrafts } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { integerOf, queryOf, readBody, refuse, scopeOf } from '../requests.ts';
import { answerTurn, checkMessage, MESSAGE, OF_TURN, turnRoutes } from './turns.ts';

const WINDOW_ID = formatted('session id', '1 to 64 of A-Z, a-z, 0-9, "-" and "_"');
const TURN = shape(object({ windowId: WINDOW_ID, message: MESSAGE }, OF_TURN));

export function chatRoutes(services: Services): Route[] {
  const { apps, chat, scopes } = services;
  /** Rejects unless there is such an app or draft. */
  const checked = async (params: Params, wid = ''): Promise<SessionName> => {
    const { app, session, key } = await scopeOf(scopes, params);
    await chat.ready(key);
    return { kind: 'window', app, id: wid, ...(session === undefined ? {} : { draft: session }) };
  };
  const windowOf = async (params: Params, caller: Caller): Promise<SessionName> => {
    const { wid = '' } = params;
    if (!isSessionId(wid)) throw new SvcError('UNKNOWN_WINDOW', 'This cannot be the id of a chat window.');
    const name = await checked(params, wid);
    permit(caller, name.app, await chat.store.modeOf(name));
    return name;
  };
  const base = '/svc/:id/_chat';
  const window = `${base}/windows/:wid`;
  return withDrafts(
    route('POST', base, 'chat', async (exchange, params, caller) => {
      const { windowId, detach = false, ...request } = await readBody(exchange, TURN);
      const name = await checked(params, windowId);
      checkMessage(request.message);
      if (params.sid === undefined) await apps.get(name.app);
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        limited: !may(caller, 'manage', name.app),
        permit: (mode) => permit(caller, name.app, mode),
      });
      await answerTurn(services.changes.readers, exchange, held, detach);
    }),
    route('GET', `${base}/windows`, 'chat', async (exchange, params, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      const name = await checked(params);
      const { app } = name;
      const isManager = may(caller, 'manage', app);
      const windows = (await chat.store.windows(scopeKey(name.app, name.draft))).filter(
        ({ mode }) => isManager || mode !== 'full',
      );
      const before = query.get('before');
      const at = before === null ? 0 : windows.findIndex(({ windowId }) => windowId === before) + 1;
      if (before !== null && at === 0) refuse('before', '"before" must be the id of a chat window.');
      answerJson(exchange, 200, windows.slice(at, at + limit), NO_STORE);
    }),
    route('GET', `${window}/history`, 'chat', async (exchange, params, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRowsMax, LIMITS.listRowsMax);
      const before = integerOf(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
      const rows = await chat.store.history(await windowOf(params, caller));
      answerJson(exchange, 200, rows.slice(0, before - 1).slice(-limit), NO_STORE);
    }),
    route('DELETE', window, 'chat', async (exchange, params, caller) => {
      const name = await windowOf(params, caller);
      await chat.remove(name);
      answerJson(exchange, 200, { windowId: name.id, deleted: true });
    }),
    ...turnRoutes(services, window, 'chat', windowOf),
  );
}

/** The files of an app are for those who manage it. Throws `FORBIDDEN`. */
function permit(caller: Caller, app: string, mode: ChatMode): void {
  if (mode === 'full') demand(caller, 'manage', app);
}
