/** `ctx`: what a handler has beyond its database and its log (decisions, section 3). */
import { joinSignals } from '../../protocol/signals.ts';
import { closeClass } from './built-ins.ts';
import type { Call } from './call.ts';
import { type HttpClient, isRequest } from './http-client.ts';

/** `ctx.fetch`. */
export type HandlerFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

// Taken before app code runs.
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
  readonly fetch: HandlerFetch;
  readonly #call: Call;

  constructor(call: Call, http: HttpClient) {
    this.#call = call;
    this.fetch = (input, init) => boundFetch(call, http, input, init);
    this.traceId = call.traceId;
    this.deadline = call.deadline;
  }

  /** A getter of the class: as one of the object itself it would be the dearest part of a call. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }
}

closeClass(HandlerContext);

/** A fetch that ends with the call, also when nobody awaits it, and with the caller's own signal. http and https only. */
export async function boundFetch(
  call: Call,
  http: HttpClient,
  input: string | URL | Request,
  init?: RequestInit,
): Promise<Response> {
  const request = typeof input === 'object' && isRequest(input) ? input : null;
  // Taken as text once, so that what is judged here is what is asked for.
  const target = request ?? String(input);
  const { protocol } = new NativeURL(request ? request.url : String(target));
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new TypeError(`ctx.fetch takes http and https addresses, not "${protocol}".`);
  }
  const own = init?.signal ?? request?.signal;
  const signal = own ? joinSignals([own, endOf(call)]).signal : endOf(call);
  return http.fetch(target, { ...init, signal });
}

function endOf(call: Call): AbortSignal {
  const known = ends.get(call);
  if (known !== undefined) return known;
  const { signal } = joinSignals([call.signal], Math.max(0, call.deadline - now()) + LATE_MS);
  ends.set(call, signal);
  return signal;
}
