/**
 * Serves chat windows over HTTP: messages and their turns, lists, histories, answers to agents (specification, "Chat windows").
 */
import type { ChatMode } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isChosenId, scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  deleteWindow,
  listWindows,
  readWindow,
  sendMessage,
  windowTurns,
} from '../../../protocol/routes/agents/chat-rows.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { unknownWindow } from '../../agents/conversations/chat-store.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import { personIdOf } from '../../http/access/person.ts';
import type { Params, Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { refuse, scopeOf } from '../requests.ts';
import { serve } from '../serve-row.ts';
import { answerTurn, checkMessage, isLimitedPerson, turnRoutes } from './turns-routes.ts';

export function chatRoutes(services: Services): Route[] {
  const { apps, chat, scopes } = services;
  /** Rejects unless there is such an app or draft. */
  const checked = async (params: Params, wid = ''): Promise<ConversationName> => {
    const { app, workspace, key } = await scopeOf(scopes, params);
    await chat.ready(key);
    return { kind: 'window', app, id: wid, ...(workspace === undefined ? {} : { draft: workspace }) };
  };
  const windowOf = async (params: Params, caller: Caller): Promise<ConversationName> => {
    const { wid = '' } = params;
    if (!isChosenId(wid)) throw new SvcError('UNKNOWN_WINDOW', 'This cannot be the id of a chat window.');
    const name = await checked(params, wid);
    const { mode, by } = await chat.store.about(name);
    if (!isTheirs(caller, by) && !isManagers(caller, name.app)) throw unknownWindow(name);
    permit(caller, name.app, mode);
    return name;
  };
  return [
    ...serve(sendMessage, async ({ params, body: { windowId, detach = false, ...request }, caller, exchange }) => {
      const name = await checked(params, windowId);
      checkMessage(request.message);
      if (params.sid === undefined) await apps.get(name.app);
      const isManager = may(caller, 'manage', name.app);
      if (isManager) caller.relies?.(() => may(caller, 'manage', name.app));
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        user: caller.shown(scopeKey(name.app, name.draft)).user,
        limited: !isManager || isLimitedPerson(caller),
        permit: (mode, by) => {
          if (by !== undefined && !isTheirs(caller, by) && !isManagers(caller, name.app)) throw taken();
          permit(caller, name.app, mode);
        },
      });
      return await answerTurn(services.changes.readers, exchange, held, detach);
    }),
    ...serve(listWindows, async ({ params, query: { limit = LIMITS.listRows, before }, caller }) => {
      const name = await checked(params);
      const isManager = may(caller, 'manage', name.app);
      const windows = (await chat.store.windows(scopeKey(name.app, name.draft))).filter(
        ({ mode, by = null }) => isManager || (mode !== 'full' && isTheirs(caller, by)),
      );
      const at = before === undefined ? 0 : windows.findIndex(({ windowId }) => windowId === before) + 1;
      if (before !== undefined && at === 0) refuse('before', '"before" must be the id of a chat window.');
      return windows.slice(at, at + limit);
    }),
    ...serve(readWindow, async ({ params, query, caller }) => {
      const { limit = LIMITS.listRowsMax, before = Number.MAX_SAFE_INTEGER } = query;
      const rows = await chat.store.history(await windowOf(params, caller));
      return rows.slice(0, before - 1).slice(-limit);
    }),
    ...serve(deleteWindow, async ({ params, caller }) => {
      const name = await windowOf(params, caller);
      await chat.remove(name);
      return { windowId: name.id, deleted: true };
    }),
    ...turnRoutes(services, windowTurns, windowOf),
  ];
}

/** Whether the person is who calls: a window that nobody with an account began is of all callers that are no person. */
function isTheirs(caller: Caller, by: NamedPerson | null): boolean {
  return personIdOf(caller) === (by?.id ?? null);
}

/** Whether a caller has everybody's windows. What goes on in one ends when it has them no more. */
function isManagers(caller: Caller, app: string): boolean {
  const manages = () => may(caller, 'manage', app);
  if (manages()) caller.relies?.(manages);
  return manages();
}

/** A window of this id is somebody else's. Clients choose ids, so this alone cannot be answered as for an unknown one. */
function taken(): SvcError {
  return new SvcError('CONFLICT', 'This id is taken; begin the window with another one.', { path: 'windowId' });
}

/** The files of an app are for those who manage it. Throws `FORBIDDEN`. */
function permit(caller: Caller, app: string, mode: ChatMode): void {
  if (mode === 'full') demand(caller, 'manage', app);
}
