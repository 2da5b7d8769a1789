/** Serves the event streams of apps and drafts over HTTP (specification, "Change stream", "Live queries"). */
import { SvcError } from '../../../protocol/errors.ts';
import { isAppId, isChosenId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { followChanges, followQueries } from '../../../protocol/routes/apps/streams-rows.ts';
import type { SubscribeOptions } from '../../dispatch/change-streams.ts';
import type { Exchange } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { notFound, type Route } from '../../http/router.ts';
import type { FollowedQuery } from '../../live/live-streams.ts';
import type { Services } from '../../services.ts';
import { parseJson, queryOf, refuse, subscriptionOf } from '../requests.ts';
import { serveRaw } from '../serve-row.ts';
import { permit } from './tools-routes.ts';

export function streamRoutes(services: Services): Route[] {
  const { changes, scopes } = services;
  return [
    ...serveRaw(followChanges, async (exchange, { sid, id = '' }) => {
      if (sid === undefined && !isAppId(id)) throw notFound();
      const scope = scopes(sid).of(id);
      changes.subscribe(scope.key, exchange, subscriptionOf(exchange, await scope.pageVersion()));
      scope.greet();
    }),
    ...serveRaw(followQueries, async (exchange, { sid, id = '' }, caller) => {
      if (!isAppId(id) || (sid !== undefined && !isChosenId(sid))) throw notFound();
      const own = scopes(sid);
      const scope = own.of(id);
      const { key } = scope;
      await permit(own, caller, 'read', scope);
      const query = queryOf(exchange);
      const wantsChanges = query.has('changes');
      const { list, lastChange } = followedOf(exchange, query, wantsChanges);
      const client = services.clientOf(exchange, caller);
      const subject = { scope, caller: caller.shown(key), client };
      const [only] = list;
      if (only !== undefined && list.length === 1 && !wantsChanges) {
        await services.liveStreams.openOne(exchange, subject, only);
        return;
      }
      let followed: SubscribeOptions | null = null;
      if (wantsChanges) {
        demand(caller, 'stream', key);
        const { lastEventId: _, ...options } = subscriptionOf(exchange, await scope.pageVersion());
        followed = { ...options, ...(lastChange === '' ? {} : { lastEventId: lastChange }) };
      }
      services.liveStreams.openMany(exchange, subject, list, followed);
    }),
  ];
}

/**
 * The request: each `query` with the `input` at the same index. Of several queries, what the client has is `<number of the
 * latest change>.<id of the first>.<id of the second>…`; of one query alone it is that id.
 */
function followedOf(
  exchange: Exchange,
  query: URLSearchParams,
  wantsChanges: boolean,
): { list: FollowedQuery[]; lastChange: string } {
  const names = query.getAll('query');
  const inputs = query.getAll('input');
  if (names.length === 0) refuse('query', 'Say which query: ?query=<name>&input=<JSON>.');
  if (names.length > LIMITS.liveQueriesOfStream)
    throw new SvcError('BAD_REQUEST', `One stream has ${LIMITS.liveQueriesOfStream} live queries at most.`, {
      path: 'query',
    });
  // Otherwise their owner would be unknown.
  if (inputs.length > 0 && names.length > 1 && inputs.length !== names.length)
    refuse('input', 'Give every "query" an "input", or none of them.');
  const had = exchange.header('last-event-id') ?? query.get('lastEventId') ?? '';
  const isMany = names.length > 1 || wantsChanges;
  const [lastChange = '', ...ids] = isMany ? had.split('.') : ['', had];
  const list = names.map((name, at) => ({
    query: name,
    input: checkedInput(inputs[at] ?? '{}'),
    lastId: ids[at] === '' ? undefined : ids[at],
  }));
  return { list, lastChange };
}

/** Handlers see the order of members, so the text stays as it is. Throws `BAD_REQUEST` for what is no JSON. */
function checkedInput(text: string): string {
  try {
    parseJson(Buffer.from(text));
    return text;
  } catch (error) {
    const { message } = error as SvcError;
    return refuse('input', message.replace('The body', '"input"'));
  }
}
