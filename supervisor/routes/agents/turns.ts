/**
 * Serves turns over HTTP, for windows and conversations: the message, its events, aborting, answers to agents (specification,
 * "Turns").
 */
import { CHAT_MODES, THINKING_LEVELS } from '../../../protocol/agents/agents.ts';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { flag, matching, object, oneOf, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { sendTurn } from '../../agents/turns/turn-stream.ts';
import type { AcceptedTurn, HeldTurn } from '../../agents/turns/turns.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { answerJson } from '../../http/answers.ts';
import type { EventReaders } from '../../http/event-streams.ts';
import { type Needs, type Params, type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { readBody, refuse } from '../requests.ts';

/** Members of a message, in the body that begins a turn. */
export const MESSAGE = matching(/\S/, 'a text');
export const OF_TURN = {
  mode: { ...oneOf(...CHAT_MODES), wanted: '"data" or "full"' },
  runner: words(LIMITS.textChars),
  model: words(LIMITS.textChars),
  thinking: oneOf(...THINKING_LEVELS),
  idempotencyKey: words(LIMITS.idempotencyKeyBytes),
  detach: flag,
};
const CHOICE = shape(
  object({ optionId: { ...words(LIMITS.textChars), wanted: 'one of the options of the permission' } }),
);

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
      const { optionId } = await readBody(exchange, CHOICE);
      const name = await nameOf(params, caller);
      const key = scopeKey(name.app, name.draft);
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

/** Throws `PAYLOAD_TOO_LARGE`. */
export function checkMessage(message: string): void {
  if (Buffer.byteLength(message) <= LIMITS.chatMessageBytes) return;
  const most = `A message may have at most ${LIMITS.chatMessageBytes} bytes.`;
  throw new SvcError('PAYLOAD_TOO_LARGE', most, { path: 'message' });
}

/** Throws `BAD_REQUEST`. Every event of a turn has a number. */
function lastEventIdOf(exchange: Exchange): number {
  const text = exchange.header('last-event-id') ?? '';
  if (text === '') return 0;
  const id = Number(text);
  return /^\d{1,15}$/.test(text) ? id : refuse('last-event-id', '"Last-Event-ID" must be the id of an event.');
}
