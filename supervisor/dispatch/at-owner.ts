/** Says how work for an app is done where the app is: in a cluster at the node that has it, else here. */

/** `signal` aborts when nobody waits for it any more. */
export type WorkForApp<G, A> = (app: string, given: G, signal?: AbortSignal) => Promise<A>;

/**
 * `repeats`: it may be done twice, so that it is asked for again when a node went away. `ms` is how long one node may take; null where
 * `signal` ends it. `follows`: it waits for a change, so that an app that moves does not wait for its end.
 */
export type AtOwnerOptions = { repeats: boolean; ms?: number | null; follows?: boolean };

/**
 * The same work, done at the node that has the app. What is given and answered is JSON. Rejects with what the work rejects with, with
 * `STORAGE_UNAVAILABLE` where no node has the app, and with the reason of `signal`.
 */
export type AtOwner = <G, A>(name: string, options: AtOwnerOptions, work: WorkForApp<G, A>) => WorkForApp<G, A>;

/** Without a cluster. */
export const HERE: AtOwner = (_name, _options, work) => work;
