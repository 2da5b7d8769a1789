/**
 * Follows queries of apps that other nodes of a cluster may have: the node that has the app is asked for the next state, again and again,
 * also when that is another one by then (specification, "Calls between nodes").
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type ErrorBody, errorFromBody, movedError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Following } from '../../protocol/topic.ts';
import type { AtOwner, WorkForApp } from '../dispatch/at-owner.ts';
import type { Scope, Scopes } from '../dispatch/scope.ts';
import type { LiveQueries } from '../live/live-queries.ts';
import type { LiveFollower, LiveRequest } from '../live/live-query.ts';

/** `known` is the id of the state that the asker has; null for none. */
type Asked = Omit<LiveRequest, 'scope'> & { known: string | null };
/** `id` is `known` where nothing else came in time. */
type Next = { id: string | null; error: ErrorBody | null };

const NOTHING = Buffer.alloc(0);

export class LiveAtOwner implements Pick<LiveQueries, 'follow'> {
  readonly #next: WorkForApp<Asked, Next>;

  constructor(live: LiveQueries, apps: Scopes, atOwner: AtOwner) {
    const ms = LIMITS.liveNextMs + LIMITS.nodeCallMs;
    this.#next = atOwner('live-query', { repeats: true, follows: true, ms }, (app, asked, signal) =>
      nextState(live, apps.of(app), asked, signal),
    );
  }

  /** The states have no result: who follows a resource reads it. `closed` is called once the app is gone. */
  follow(request: LiveRequest, follower: LiveFollower): Following {
    const ended = new AbortController();
    void this.#follow(request, follower, ended.signal);
    return { resume: () => {}, stop: () => ended.abort() };
  }

  async #follow({ scope, ...asked }: LiveRequest, follower: LiveFollower, ended: AbortSignal): Promise<void> {
    for (let known: string | null = null; !ended.aborted; ) {
      let next: Next;
      try {
        next = await this.#next(scope.app, { ...asked, known }, ended);
      } catch {
        await wait(LIMITS.nodeMovingLookMs, undefined, { signal: ended }).catch(() => {});
        continue;
      }
      if (ended.aborted || next.id === null || next.id === known) continue;
      const error = next.error === null ? null : errorFromBody(next.error);
      if (known !== null && error?.code === 'UNKNOWN_APP') {
        follower.closed();
        return;
      }
      known = next.id;
      follower.tell({ id: known, event: error === null ? 'data' : 'error', json: NOTHING, error });
    }
  }
}

/** Resolves with the first state that the asker does not have. Rejects when the app goes to another node, and as `LiveQueries.follow`. */
function nextState(
  live: LiveQueries,
  scope: Scope,
  { known, ...asked }: Asked,
  signal: AbortSignal | undefined,
): Promise<Next> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
      following.stop();
      settle();
    };
    const leave = (): void => end(() => reject(signal?.reason as Error));
    const following = live.follow(
      { ...asked, scope },
      {
        tell: ({ id, error }) => {
          if (id !== known) end(() => resolve({ id, error: error?.toBody() ?? null }));
        },
        closed: () => end(() => reject(movedError())),
      },
    );
    const timer = setTimeout(() => end(() => resolve({ id: known, error: null })), LIMITS.liveNextMs);
    signal?.addEventListener('abort', leave, { once: true });
  });
}
