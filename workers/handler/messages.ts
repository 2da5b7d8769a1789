/** What a handler host and the threads in it say to each other. */
import type { ActorSpec } from '../../protocol/frames.ts';

export type ToActor = { type: 'start'; spec: ActorSpec } | { type: 'stop' } | { type: 'measure'; budget: number };

/**
 * `ready`: `osThread` is the system's number of the thread, 0 where it is not known. `measured`: the bytes that it holds outside
 * its heap. `failed`: it could not start. `crashed`: an error that app code let go unhandled is about to end the thread.
 */
export type FromActor =
  | { type: 'ready'; osThread: number }
  | { type: 'measured'; bytes: number }
  | { type: 'failed' | 'crashed'; detail: string };
