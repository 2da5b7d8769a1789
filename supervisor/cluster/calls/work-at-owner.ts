/** Has work for an app done at the node that has it (specification, "Calls between nodes"). */
import { setTimeout as wait } from 'node:timers/promises';
import { bucketOf } from '../../../protocol/buckets.ts';
import { movedError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { AtOwner, AtOwnerOptions, WorkForApp } from '../../dispatch/at-owner.ts';
import { type NodeCalls, unavailable } from './node-calls.ts';
import type { Owners } from './owners.ts';

export function workAtOwner(owners: Owners, calls: NodeCalls): AtOwner {
  return <G, A>(
    name: string,
    { repeats, follows = false, ms = LIMITS.nodeCallMs }: AtOwnerOptions,
    work: WorkForApp<G, A>,
  ): WorkForApp<G, A> => {
    const here: WorkForApp<G, A> = async (app, given, signal) => {
      if (follows) return await work(app, given, signal);
      const done = owners.underWay.begin(bucketOf(app));
      try {
        return await work(app, given, signal);
      } finally {
        done();
      }
    };
    calls.serve(name, (given, signal) => {
      const asked = given as { app: string; given: G };
      return here(asked.app, asked.given, signal);
    });
    return async (app, given, signal) => {
      const bucket = bucketOf(app);
      for (const until = performance.now() + LIMITS.nodesMovingMs; ; ) {
        // The app may have come here meanwhile.
        if (owners.isOwn(bucket)) return await here(app, given, signal);
        const asked = await calls.offer(name, bucket, { app, given }, { ms, signal });
        if (typeof asked === 'object') return asked.value as A;
        if (asked === 'unknown' && !repeats)
          throw unavailable(`The node that has "${app}" went away; whether this was done is not known.`);
        if (performance.now() >= until) throw movedError();
        await wait(LIMITS.nodesAgainMs, undefined, { signal }).catch(() => signal?.throwIfAborted());
      }
    };
  };
}
