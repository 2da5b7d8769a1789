/**
 * Serves turns over HTTP, for windows and conversations: the message, its events, aborting, answers to agents (specification,
 * "Turns").
 */
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { TurnRows } from '../../../protocol/routes/agents/turns-rows.ts';
import { sendTurn } from '../../agents/turns/turn-stream.ts';
import type { AcceptedTurn, HeldTurn } from '../../agents/turns/turns.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import type { EventReaders } from '../../http/event-streams.ts';
import type { Params, Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';
import { ANSWERED, serve } from '../serve-row.ts';

/**
 * The routes of the turns of a window or conversation; `nameOf` rejects unless it is there, and for this caller. To let an agent do
 * what it may not do by itself is for those who manage the app: pages of apps only talk with it. An action of the app may be
 * confirmed by all who talk with the agent and may call that action themselves.
 */
export function turnRoutes(
  { chat, changes }: Services,
  { follow, abort, choose }: TurnRows,
  nameOf: (params: Params, caller: Caller) => Promise<ConversationName>,
): Route[] {
  return [
    ...serve(follow, async ({ params, headers, caller, exchange }) => {
      const after = idOf(headers['last-event-id']);
      const held = await chat.turns.hold(await nameOf(params, caller), params.turnId);
      await sendEvents(changes.readers, exchange, held, after);
      return ANSWERED;
    }),
    ...serve(abort, async ({ params, caller }) => await chat.turns.abort(await nameOf(params, caller), params.turnId)),
    ...serve(choose, async ({ params, body: { optionId }, caller }) => {
      const { turnId, requestId } = params;
      const name = await nameOf(params, caller);
      const key = scopeKey(name.app, name.draft);
      const permit = (own: boolean) => {
        demand(caller, own ? 'write' : 'manage', key);
        if (!own && isLimitedPerson(caller)) demand(caller, 'admin', null);
      };
      const { ok } = await chat.turns.choose(name, turnId, requestId, optionId, permit);
      return { turnId, requestId, optionId, ok };
    }),
  ];
}

/** A person who does not own the machine: some agents run commands of it, which only its owner may. */
export function isLimitedPerson(caller: Caller): boolean {
  return caller.kind === 'person' && !may(caller, 'admin', null);
}

/** Sends the events of a turn after the id `after`; `left` is called when the client goes away before the end. */
async function sendEvents(
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
): Promise<typeof ANSWERED> {
  await sendEvents(readers, exchange, held, 0, isDetached ? undefined : held.abandon);
  return ANSWERED;
}

/** Throws `PAYLOAD_TOO_LARGE`. */
export function checkMessage(message: string): void {
  if (Buffer.byteLength(message) <= LIMITS.chatMessageBytes) return;
  const most = `A message may have at most ${LIMITS.chatMessageBytes} bytes.`;
  throw new SvcError('PAYLOAD_TOO_LARGE', most, { path: 'message' });
}

/** Throws `BAD_REQUEST`. Every event of a turn has a number. */
function idOf(text = ''): number {
  if (text === '') return 0;
  return /^\d{1,15}$/.test(text)
    ? Number(text)
    : refuse('last-event-id', '"Last-Event-ID" must be the id of an event.');
}
