/** Asks the gateway: the client of the console, and streams that a view follows while it is shown. */
import { type FollowOptions, GatewayClient } from '../protocol/http/client.ts';
import type { ServerSentEvent } from '../protocol/http/event-stream.ts';
import type { GatewayError } from '../protocol/http/gateway-error.ts';
import { isSignedOut, SIGNED_IN, TRANSPORT } from './fetch-transport.ts';

export { GatewayError } from '../protocol/http/gateway-error.ts';
export { BACK, isSignedOut, SIGNED_IN, SIGNED_OUT, setSignedOut, unreachable } from './fetch-transport.ts';

export const gateway = new GatewayClient(TRANSPORT);

/** From a refusal of a stream until it is asked for again. */
const RETRY_MS = 3000;

type Followed = Pick<FollowOptions, 'onOpen' | 'onLost'> & {
  onEvent: (event: ServerSentEvent) => void;
  /** Called with what the gateway refuses the stream with, which is asked for again after a while and after a sign-in. */
  onRefused?: (error: GatewayError) => void;
};

/** Follows the stream at an address until the function that it answers is called. */
export function followed(address: string, { onEvent, onRefused, ...options }: Followed): () => void {
  const leaving = new AbortController();
  const { signal } = leaving;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let isFollowing = false;
  const follow = async () => {
    clearTimeout(retry);
    if (isFollowing || isSignedOut()) return;
    isFollowing = true;
    try {
      for await (const event of gateway.follow(address, { ...options, isPatient: true, signal })) onEvent(event);
    } catch (error) {
      if (signal.aborted) return;
      isFollowing = false;
      onRefused?.(error as GatewayError);
      if (!signal.aborted) retry = setTimeout(follow, RETRY_MS);
    }
  };
  void follow();
  addEventListener(SIGNED_IN, follow);
  return () => {
    leaving.abort();
    clearTimeout(retry);
    removeEventListener(SIGNED_IN, follow);
  };
}
