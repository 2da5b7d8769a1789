/** Answers `subscriptions/listen`, with which MCP clients since 2026 subscribe: one stream for the resources and lists of one request. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { listOf, type Of, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { Exchange } from '../edge/edge.ts';
import type { EventReader } from '../http/event-streams.ts';
import { digestsOf, type ListSource, ListWatch } from './lists.ts';
import type { Listener, McpSessions } from './mcp-sessions.ts';
import { type FollowedResource, type ListName, messageEvent, Subscriptions } from './subscriptions.ts';

/** `followed` rejects for what is no resource that changes. `done` is the result with which the stream ends. */
type Listening = {
  id: string | number;
  to: ListenedTo;
  source: ListSource;
  followed(uri: string): Promise<FollowedResource>;
  done: { _meta: object; [member: string]: unknown };
};

/** What a client listens to: changes of these resources, and of these lists. */
type ListenedTo = { readonly uris: readonly string[]; readonly lists: readonly ListName[] };

/** Prompts are not among them: there are none. */
const FILTERS = { tools: 'toolsListChanged', resources: 'resourcesListChanged' } as const satisfies Record<
  ListName,
  string
>;

const FILTER = object({}, { resourceSubscriptions: listOf(text, 'an array of URIs') });
const LISTEN = shape(object({ notifications: { ...FILTER, wanted: 'an object that says what to listen to' } }));
type Filter = Of<typeof FILTER> & Record<string, unknown>;

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

/** What `subscriptions/listen` asks for. Throws `INVALID_INPUT` for an invalid filter. */
export function listenedTo(params: Record<string, unknown>): ListenedTo {
  const filter: Filter = LISTEN.checked(params, 'INVALID_INPUT', 'What is given').notifications;
  const all = [...new Set(filter.resourceSubscriptions)];
  if (all.length > LIMITS.liveQueriesOfStream) {
    const message = `A client subscribes to ${LIMITS.liveQueriesOfStream} resources at most in one stream.`;
    throw new SvcError('INVALID_INPUT', message);
  }
  const lists = (Object.keys(FILTERS) as ListName[]).filter((list) => filter[FILTERS[list]] === true);
  return { uris: all, lists };
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
  { id, to: { uris, lists }, source, followed, done }: Listening,
  { options: { live, liveOfAll, readers, changes }, listening }: McpSessions,
): Promise<void> {
  const _meta = { [SUBSCRIPTION]: id };
  let reader: EventReader | null = null;
  let watch: ListWatch | null = null;
  const tell = (message: object): void => reader?.write(Buffer.from(messageEvent(message)));
  const end = (): void => {
    listening.delete(listener);
    watch?.close();
    subscriptions.close();
    reader?.end();
  };
  const complete = (): void => {
    tell({ id, result: { ...done, _meta: { ..._meta, ...done._meta } } });
    end();
  };
  const subscriptions = new Subscriptions(source.key === null ? liveOfAll : live, {
    lost: end,
    closed: () => {
      if (subscriptions.size === 0 && lists.length === 0) complete();
    },
  });
  const listener: Listener = { endRefused: () => subscriptions.endRefused(), end };
  listening.add(listener);
  exchange.onAbort(end);
  const known = lists.length === 0 ? null : digestsOf(source);
  try {
    const add = async (uri: string): Promise<void> => {
      try {
        await subscriptions.add(uri, await followed(uri));
      } catch (error) {
        throw new RefusedResource(uri, error);
      }
    };
    await Promise.all(uris.map(add));
    reader = readers.open(exchange);
  } catch (error) {
    end();
    throw error;
  }
  const notifications = {
    ...Object.fromEntries(lists.map((list) => [FILTERS[list], true])),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
  tell({ method: 'notifications/subscriptions/acknowledged', params: { notifications, _meta } });
  // Nothing else can follow.
  if (uris.length === 0 && known === null) complete();
  else if (reader === null) end();
  else {
    reader.onEnd(end);
    subscriptions.tell(reader, 0, ({ method, params }) => messageEvent({ method, params: { ...params, _meta } }));
    if (known === null) return;
    watch = new ListWatch({
      source,
      known,
      changes,
      changed: (others) => subscriptions.listsChanged(others.filter((list) => lists.includes(list))),
      gone: () => {
        subscriptions.listsChanged(lists);
        complete();
      },
    });
  }
}
