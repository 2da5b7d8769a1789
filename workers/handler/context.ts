/** `ctx`: what a handler has beyond its database and its log (decisions, section 3). */
import type { Call } from './call.ts';

/** `deadline` is in milliseconds since the epoch; `signal` aborts when the caller has gone or the time is up. */
export type HandlerContext = {
  fetch: typeof fetch;
  readonly signal: AbortSignal;
  traceId: string;
  deadline: number;
};

// Taken before app code runs and before `fetch` is removed from the surface.
const nativeFetch = globalThis.fetch;
const NativeRequest = globalThis.Request;
const NativeURL = globalThis.URL;
const { now } = Date;
const anySignal = AbortSignal.any.bind(AbortSignal);
const timeoutSignal = AbortSignal.timeout.bind(AbortSignal);

export function createContext(call: Call): HandlerContext {
  return {
    fetch: (input, init) => boundFetch(call, input, init),
    get signal() {
      return call.signal;
    },
    traceId: call.traceId,
    deadline: call.deadline,
  };
}

/** A fetch that ends with the call, also when nobody awaits it, and with the caller's own signal. http and https only. */
async function boundFetch(call: Call, input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = input instanceof NativeRequest ? input : null;
  const { protocol } = new NativeURL(request ? request.url : String(input));
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new TypeError(`ctx.fetch takes http and https addresses, not "${protocol}".`);
  }
  const signals = [call.signal, timeoutSignal(Math.max(0, call.deadline - now()))];
  const own = init?.signal ?? request?.signal;
  if (own) signals.push(own);
  return nativeFetch(input, { ...init, signal: anySignal(signals) });
}
