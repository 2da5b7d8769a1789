/** What a handler host and the threads in it say to each other. */
import type { ActorSpec } from '../../protocol/frames.ts';

export type ToActor = { type: 'start'; spec: ActorSpec } | { type: 'stop' };

/** `failed`: it could not start. `crashed`: an error that app code let go unhandled is about to end the thread. */
export type FromActor = { type: 'ready' } | { type: 'failed' | 'crashed'; detail: string };
