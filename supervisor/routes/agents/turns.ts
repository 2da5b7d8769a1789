/**
 * Serves turns over HTTP, for windows and conversations: the message, its events, aborting, answers to agents (decisions,
 * section 12).
 */
import { CHAT_MODES, type ChatMode, THINKING_LEVELS } from '../../../protocol/agents/agents.ts';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { TurnRequest } from '../../agents/turns/turn-lane.ts';
import { sendTurn } from '../../agents/turns/turn-stream.ts';
import type { AcceptedTurn, HeldTurn } from '../../agents/turns/turns.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/access.ts';
import { answerJson } from '../../http/answers.ts';
import type { EventReaders } from '../../http/event-streams.ts';
import { type Needs, type Params, type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type Body, optionalText, readJson, refuse } from '../requests.ts';

/**
 * The routes of the turns of what is at `path`; `nameOf` rejects unless it is there, and for this caller. To let an agent do what
 * it may not do by itself is for those who manage the app: pages of apps only talk with it. An action of the app may be confirmed
 * by all who talk with the agent and may call that action themselves.
 */
export function turnRoutes(
  { chat, changes }: Services,
  path: string,
  needs: Needs,
  nameOf: (params: Params, caller: Caller) => Promise<SessionName>,
): Route[] {
  const turn = `${path}/turns/:turnId`;
  return [
    route('GET', `${turn}/events`, needs, async (exchange, params, caller) => {
      const after = lastEventIdOf(exchange);
      const held = await chat.turns.hold(await nameOf(params, caller), params.turnId ?? '');
      await follow(changes.readers, exchange, held, after);
    }),
    route('DELETE', turn, needs, async (exchange, params, caller) => {
      answerJson(exchange, 200, await chat.turns.abort(await nameOf(params, caller), params.turnId ?? ''));
    }),
    route('POST', `${turn}/permissions/:requestId`, needs, async (exchange, params, caller) => {
      const { turnId = '', requestId = '' } = params;
      const optionId = optionalText(await readJson(exchange), 'optionId');
      if (optionId === undefined) refuse('optionId', '"optionId" must be one of the options of the permission.');
      const name = await nameOf(params, caller);
      const key = name.draft === undefined ? name.app : draftKey(name.draft, name.app);
      const permit = (own: boolean) => demand(caller, own ? 'write' : 'manage', key);
      const { ok } = await chat.turns.choose(name, turnId, requestId, optionId, permit);
      answerJson(exchange, 200, { turnId, requestId, optionId, ok });
    }),
  ];
}

/** Sends the events of a turn after the id `after`; `left` is called when the client goes away before the end. */
async function follow(
  readers: EventReaders,
  exchange: Exchange,
  held: HeldTurn,
  after: number,
  left: () => void = () => {},
): Promise<void> {
  try {
    if (await sendTurn(readers, exchange, held.turn, after)) left();
  } catch (error) {
    left();
    throw error;
  } finally {
    held.leave();
  }
}

/** Sends the events of a turn to who sent its message. When all who did have gone away it is aborted, unless one is detached. */
export async function answerTurn(
  readers: EventReaders,
  exchange: Exchange,
  held: AcceptedTurn,
  isDetached: boolean,
): Promise<void> {
  await follow(readers, exchange, held, 0, isDetached ? undefined : held.abandon);
}

/** Throws `BAD_REQUEST`, and `PAYLOAD_TOO_LARGE` for a message that is too long. */
export function requestOf(body: Body): TurnRequest {
  const { message, mode, thinking } = body;
  if (typeof message !== 'string' || message.trim() === '') refuse('message', '"message" must be a text.');
  if (Buffer.byteLength(message) > LIMITS.chatMessageBytes) {
    const most = `A message may have at most ${LIMITS.chatMessageBytes} bytes.`;
    throw new SvcError('PAYLOAD_TOO_LARGE', most, { path: 'message' });
  }
  if (mode !== undefined && !CHAT_MODES.includes(mode as ChatMode)) refuse('mode', '"mode" must be "data" or "full".');
  const level = THINKING_LEVELS.find((one) => one === thinking);
  if (thinking !== undefined && thinking !== null && level === undefined)
    refuse('thinking', `"thinking" must be one of ${THINKING_LEVELS.join(', ')}.`);
  const runner = optionalText(body, 'runner');
  const model = optionalText(body, 'model');
  const idempotencyKey = optionalText(body, 'idempotencyKey', LIMITS.idempotencyKeyBytes);
  return {
    message,
    ...(mode === undefined ? {} : { mode: mode as ChatMode }),
    ...(runner === undefined ? {} : { runner }),
    ...(model === undefined ? {} : { model }),
    ...(level === undefined ? {} : { thinking: level }),
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
