/** `ctx`: what a handler has beyond its database and its log (decisions, section 3). */
import { joinSignals } from '../../protocol/signals.ts';
import type { Call } from './call.ts';

// Taken before app code runs and before `fetch` is removed from the surface. `Request` is taken as its getter: reading it
// loads Node's HTTP client, two MiB for each thread, which most apps never use.
const nativeFetch = globalThis.fetch;
const requestGetter = Object.getOwnPropertyDescriptor(globalThis, 'Request');
const NativeURL = globalThis.URL;
const { now } = Date;
/**
 * How long after the deadline a fetch ends by itself. The supervisor ends the call first, and says that its time was up: what
 * the fetch would throw at the same moment says less.
 */
const LATE_MS = 250;

/** What ends the fetches of a call: one for all of them, since it is kept until the deadline. */
const ends = new WeakMap<Call, AbortSignal>();

/** `deadline` is in milliseconds since the epoch; `signal` aborts when the caller has gone or the time is up. */
export class HandlerContext {
  readonly traceId: string;
  readonly deadline: number;
  readonly fetch: typeof fetch;
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
    this.fetch = (input, init) => boundFetch(call, input, init);
    this.traceId = call.traceId;
    this.deadline = call.deadline;
  }

  /** A getter of the class: as one of the object itself it would be the dearest part of a call. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }
}

function isRequest(input: unknown): input is Request {
  const NativeRequest = requestGetter?.get ? requestGetter.get.call(globalThis) : requestGetter?.value;
  return input instanceof NativeRequest;
}

/** A fetch that ends with the call, also when nobody awaits it, and with the caller's own signal. http and https only. */
export async function boundFetch(call: Call, input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = typeof input === 'object' && isRequest(input) ? input : null;
  const { protocol } = new NativeURL(request ? request.url : String(input));
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new TypeError(`ctx.fetch takes http and https addresses, not "${protocol}".`);
  }
  const own = init?.signal ?? request?.signal;
  const signal = own ? joinSignals([own, endOf(call)]).signal : endOf(call);
  return nativeFetch(input, { ...init, signal });
}

function endOf(call: Call): AbortSignal {
  const known = ends.get(call);
  if (known !== undefined) return known;
  const { signal } = joinSignals([call.signal], Math.max(0, call.deadline - now()) + LATE_MS);
  ends.set(call, signal);
  return signal;
}
