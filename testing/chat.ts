/** Chat windows as a client uses them: messages, the events of turns, histories. */
import type { ServerSentEvent } from '../protocol/http/event-stream.ts';
import type { Stream, TestGateway } from './gateway.ts';

/** An event of a turn: its id, and its data. */
// biome-ignore lint/suspicious/noExplicitAny: the tests look into events of every type
export type TurnEventSeen = { id: number; type: string; [member: string]: any };

/** Sends a message; resolves with the open stream. Rejects with the answer if the message is refused. */
export function send(gateway: TestGateway, app: string, body: Record<string, unknown>): Promise<Stream> {
  return gateway.stream(`/svc/${app}/_chat`, {}, body);
}

export function turnEvent({ id, event, data }: ServerSentEvent): TurnEventSeen {
  const parsed = JSON.parse(data);
  if (parsed.type !== event) throw new Error(`The data of ${event} says ${parsed.type}.`);
  return { id: Number(id), ...parsed };
}

/** The next event of this type, with those before it. */
export async function until(stream: Stream, type: string): Promise<TurnEventSeen[]> {
  const events: TurnEventSeen[] = [];
  do events.push(turnEvent(await stream.next()));
  while (events.at(-1)?.type !== type);
  return events;
}

/** All events up to `end`, after the stream has ended. */
export async function turnOf(stream: Stream): Promise<TurnEventSeen[]> {
  const events = await until(stream, 'end');
  await stream.ended();
  return events;
}

/** Sends a message and waits for the end of its turn. */
export async function say(
  gateway: TestGateway,
  app: string,
  windowId: string,
  message: string,
  more: Record<string, unknown> = {},
): Promise<TurnEventSeen[]> {
  return await turnOf(await send(gateway, app, { windowId, message, ...more }));
}

/** Reads the events of a turn again. */
export async function replay(
  gateway: TestGateway,
  app: string,
  windowId: string,
  turnId: string,
  lastEventId?: number,
): Promise<TurnEventSeen[]> {
  const headers: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) };
  return await turnOf(await gateway.stream(`/svc/${app}/_chat/windows/${windowId}/turns/${turnId}/events`, headers));
}

/** Checks the events of a turn from the first one on. */
export function turnIdOf([start]: TurnEventSeen[]): string {
  if (start?.type !== 'assistant.start') throw new Error(`A turn began with ${start?.type}.`);
  return start.turnId;
}

export function typesOf(events: TurnEventSeen[]): string[] {
  return events.map(({ type }) => type);
}

/** The agent's text, piece by piece. */
export function textOf(events: TurnEventSeen[]): string {
  return events.map(({ type, delta }) => (type === 'assistant.delta' ? delta : '')).join('');
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into rows of every kind
export async function historyOf(gateway: TestGateway, app: string, windowId: string): Promise<any[]> {
  return (await gateway.call('GET', `/svc/${app}/_chat/windows/${windowId}/history`)).json;
}
