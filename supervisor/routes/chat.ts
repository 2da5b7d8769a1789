/** Chat windows over HTTP: messages and their turns, lists, histories, answers to agents (specification, "Per-app surface"; decisions, sections 8 and 12). */
import { CHAT_MODES, type ChatMode } from '../../protocol/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, isSessionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { SessionName } from '../../protocol/session-key.ts';
import { sendTurn } from '../agents/turn-stream.ts';
import type { HeldTurn, TurnRequest } from '../agents/turns.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/access.ts';
import { answerJson, NO_STORE } from '../http/answers.ts';
import { type Params, type Route, route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { gitStoreOf } from './drafts.ts';
import { type Body, integerOf, optionalText, queryOf, readJson, refuse } from './requests.ts';

export function chatRoutes(services: Services): Route[] {
  return [...routesBelow(services, '/svc/:id'), ...routesBelow(services, '/svc/_draft/:sid/:id')];
}

function routesBelow(services: Services, base: string): Route[] {
  const { apps, chat, changes } = services;
  /** Rejects unless there is such an app or draft. */
  const checked = async ({ id = '', sid }: Params, wid = ''): Promise<SessionName> => {
    checkAppId(id);
    if (sid === undefined) await apps.registered(id);
    else await gitStoreOf(services).drafts.draft(sid, id);
    return { kind: 'window', app: id, id: wid, ...(sid === undefined ? {} : { draft: sid }) };
  };
  const windowOf = async (params: Params): Promise<SessionName> => {
    const { wid = '' } = params;
    if (!isSessionId(wid)) throw new SvcError('UNKNOWN_WINDOW', 'This cannot be the id of a chat window.');
    const name = await checked(params, wid);
    await chat.demand(name);
    return name;
  };
  const window = `${base}/_chat/windows/:wid`;
  return [
    route('POST', `${base}/_chat`, 'chat', async (exchange, params, caller) => {
      const body = await readJson(exchange);
      const name = await checked(params, windowIdOf(body));
      const request = requestOf(body);
      if (request.mode === 'full') demandFull(services, caller, name);
      if (params.sid === undefined) await apps.get(name.app);
      const isDetached = flagOf(body, 'detach');
      const held = await chat.turns.accept(name, request);
      await follow(exchange, held, 0, isDetached);
    }),
    route('GET', `${base}/_chat/windows`, 'chat', async (exchange, params) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      const { app, draft } = await checked(params);
      const windows = await chat.list(app, draft);
      const before = query.get('before');
      const at = before === null ? 0 : windows.findIndex(({ windowId }) => windowId === before) + 1;
      if (before !== null && at === 0) refuse('before', '"before" must be the id of a chat window.');
      answerJson(exchange, 200, windows.slice(at, at + limit), NO_STORE);
    }),
    route('GET', `${window}/history`, 'chat', async (exchange, params) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRowsMax, LIMITS.listRowsMax);
      const before = integerOf(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
      const rows = await chat.history(await windowOf(params));
      answerJson(exchange, 200, rows.slice(0, before - 1).slice(-limit), NO_STORE);
    }),
    route('DELETE', window, 'chat', async (exchange, params) => {
      const name = await windowOf(params);
      await chat.remove(name);
      answerJson(exchange, 200, { windowId: name.id, deleted: true });
    }),
    route('GET', `${window}/turns/:turnId/events`, 'chat', async (exchange, params) => {
      const after = lastEventIdOf(exchange);
      const held = await chat.turns.hold(await windowOf(params), params.turnId ?? '');
      await follow(exchange, held, after, true);
    }),
    route('DELETE', `${window}/turns/:turnId`, 'chat', async (exchange, params) => {
      answerJson(exchange, 200, await chat.turns.abort(await windowOf(params), params.turnId ?? ''));
    }),
    route('POST', `${window}/turns/:turnId/permissions/:requestId`, 'chat', async (exchange, params) => {
      const { turnId = '', requestId = '' } = params;
      const optionId = optionalText(await readJson(exchange), 'optionId');
      if (optionId === undefined) refuse('optionId', '"optionId" must be one of the options of the permission.');
      const name = await windowOf(params);
      const { ok } = await chat.turns.choose(name, turnId, requestId, optionId);
      answerJson(exchange, 200, { turnId, requestId, optionId, ok });
    }),
  ];

  /** A client that goes away before the end aborts the turn, unless it is `detached`. */
  async function follow(exchange: Exchange, held: HeldTurn, after: number, detached: boolean): Promise<void> {
    try {
      const hasLeft = await sendTurn(changes.readers, exchange, held.turn, after);
      if (hasLeft && !detached) held.abort();
    } finally {
      held.leave();
    }
  }
}

/** The files of an app are for those who manage it. Throws `MODE_UNAVAILABLE` or `FORBIDDEN`. */
function demandFull({ gitStore }: Services, caller: Caller, { app }: SessionName): void {
  demand(caller, 'manage', app);
  if (gitStore) return;
  throw new SvcError('MODE_UNAVAILABLE', 'Mode "full" needs the git store: svc serve --store git.', { path: 'mode' });
}

function windowIdOf({ windowId }: Body): string {
  if (typeof windowId === 'string' && isSessionId(windowId)) return windowId;
  return refuse('windowId', '"windowId" must be 1 to 64 of A-Z, a-z, 0-9, "-" and "_".');
}

/** Throws `BAD_REQUEST`, and `PAYLOAD_TOO_LARGE` for a message that is too long. */
export function requestOf(body: Body): TurnRequest {
  const { message, mode } = body;
  if (typeof message !== 'string' || message.trim() === '') refuse('message', '"message" must be a text.');
  if (Buffer.byteLength(message) > LIMITS.chatMessageBytes) {
    const most = `A message may have at most ${LIMITS.chatMessageBytes} bytes.`;
    throw new SvcError('PAYLOAD_TOO_LARGE', most, { path: 'message' });
  }
  if (mode !== undefined && !CHAT_MODES.includes(mode as ChatMode)) refuse('mode', '"mode" must be "data" or "full".');
  const runner = optionalText(body, 'runner');
  const model = optionalText(body, 'model');
  const idempotencyKey = optionalText(body, 'idempotencyKey', LIMITS.idempotencyKeyBytes);
  return {
    message,
    ...(mode === undefined ? {} : { mode: mode as ChatMode }),
    ...(runner === undefined ? {} : { runner }),
    ...(model === undefined ? {} : { model }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

export function flagOf(body: Body, name: string): boolean {
  const value = body[name] ?? false;
  return typeof value === 'boolean' ? value : refuse(name, `"${name}" must be true or false.`);
}

/** Throws `BAD_REQUEST`. Every event of a turn has a number. */
function lastEventIdOf(exchange: Exchange): number {
  const text = exchange.header('last-event-id') ?? '';
  if (text === '') return 0;
  const id = Number(text);
  return /^\d{1,15}$/.test(text) ? id : refuse('last-event-id', '"Last-Event-ID" must be the id of an event.');
}
