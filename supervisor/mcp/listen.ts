/** Answers `subscriptions/listen`, with which MCP clients since 2026 subscribe: one stream for the resources of one request. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange } from '../edge/edge.ts';
import type { EventReader } from '../http/event-streams.ts';
import type { McpSessions } from './sessions.ts';
import { type FollowedResource, messageEvent, Subscriptions } from './subscriptions.ts';

/** `followed` rejects for what is no resource that changes. `done` is the result with which the stream ends. */
type Listening = {
  id: string | number;
  uris: readonly string[];
  followed(uri: string): Promise<FollowedResource>;
  done: { _meta: object; [member: string]: unknown };
};

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

/**
 * The URIs that `subscriptions/listen` asks for; changes of lists are not announced. Throws `INVALID_INPUT` for an invalid
 * filter.
 */
export function listenedUris(params: Record<string, unknown>): readonly string[] {
  const filter = params.notifications;
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter))
    throw new SvcError('INVALID_INPUT', '"notifications" is missing: it says what to listen to.');
  const { resourceSubscriptions: uris = [] } = filter as { resourceSubscriptions?: unknown };
  if (!Array.isArray(uris) || uris.some((uri) => typeof uri !== 'string'))
    throw new SvcError('INVALID_INPUT', '"resourceSubscriptions" must be an array of URIs.');
  const all = [...new Set(uris as string[])];
  if (all.length <= LIMITS.liveQueriesOfStream) return all;
  const message = `A client subscribes to ${LIMITS.liveQueriesOfStream} resources at most in one stream.`;
  throw new SvcError('INVALID_INPUT', message);
}

/** One of the resources cannot be subscribed to; `cause` says why. */
export class RefusedResource extends Error {
  readonly uri: string;

  constructor(uri: string, cause: unknown) {
    super(`"${uri}" was refused.`, { cause });
    this.uri = uri;
  }
}

/** Resolves once the stream is open, or its client has left. Rejects before with `RefusedResource` and `OVERLOADED`. */
export async function listen(
  exchange: Exchange,
  { id, uris, followed, done }: Listening,
  { options: { live, readers }, listening }: McpSessions,
): Promise<void> {
  const _meta = { [SUBSCRIPTION]: id };
  let reader: EventReader | null = null;
  const tell = (message: object): void => reader?.write(Buffer.from(messageEvent(message)));
  const end = (): void => {
    listening.delete(subscriptions);
    subscriptions.close();
    reader?.end();
  };
  const complete = (): void => {
    tell({ id, result: { ...done, _meta: { ..._meta, ...done._meta } } });
    end();
  };
  const subscriptions = new Subscriptions(live, {
    lost: end,
    closed: () => {
      if (subscriptions.size === 0) complete();
    },
  });
  listening.add(subscriptions);
  exchange.onAbort(end);
  try {
    const add = async (uri: string): Promise<void> => {
      try {
        await subscriptions.add(uri, await followed(uri));
      } catch (error) {
        throw new RefusedResource(uri, error);
      }
    };
    await Promise.all(uris.map(add));
    reader = readers.open(exchange, { gone: end, caughtUp: () => subscriptions.flush() });
  } catch (error) {
    end();
    throw error;
  }
  const notifications = uris.length === 0 ? {} : { resourceSubscriptions: uris };
  tell({ method: 'notifications/subscriptions/acknowledged', params: { notifications, _meta } });
  // Changes of lists are not announced, so nothing else can follow.
  if (uris.length === 0) complete();
  else if (reader === null) end();
  else {
    const eventOf = (uri: string) =>
      messageEvent({ method: 'notifications/resources/updated', params: { uri, _meta } });
    subscriptions.attach({ reader, told: 0, eventOf });
  }
}
