/** Carries the requests of the console, on `fetch` with the page key, and tells it when the session has ended and when the gateway is back. */
import { type Answer, EVENT_STREAM, type Sending, type Transport } from '../protocol/http/client.ts';
import { errorIn, GatewayError } from '../protocol/http/gateway-error.ts';
import { keyHeaders } from './bridge/page-key.ts';
import { chunksOf } from './bridge/streams/chunks.ts';

/** Dispatched on `window` when a request was refused because the session has ended, and when there is one again. */
export const SIGNED_OUT = 'svc-console:signed-out';
export const SIGNED_IN = 'svc-console:signed-in';

/** Dispatched on `window` when the gateway answers again, such as after a restart. */
export const BACK = 'svc-console:back';

let signedOut = false;
let isLost = false;

/** What a proxy says in place of a gateway that does not answer it; the gateway's own errors have a code. */
const AWAY = new Set([502, 504]);

/** Polling stops then, because the gateway counts refused requests. */
export const isSignedOut = (): boolean => signedOut;

export function setSignedOut(ended: boolean): void {
  if (ended === signedOut) return;
  signedOut = ended;
  dispatchEvent(new Event(ended ? SIGNED_OUT : SIGNED_IN));
}

export const unreachable = (message = 'The gateway does not answer. Is it running?'): GatewayError =>
  new GatewayError(0, { code: 'UNREACHABLE', message });

async function send(request: Sending): Promise<Response & Answer> {
  const { path, method, body, signal, onSent } = request;
  const headers = { ...request.headers, ...keyHeaders() };
  const lost = (message?: string): GatewayError => {
    isLost = true;
    return unreachable(message);
  };
  let response: Response;
  try {
    // Whether something is there now, no cache knows.
    const cache = method === 'HEAD' || headers.accept === EVENT_STREAM ? 'no-store' : 'default';
    const init: RequestInit = { method, headers, cache, body: (body as BodyInit) ?? null, signal: signal ?? null };
    response = await (onSent ? sendCounted({ ...request, headers }, onSent) : fetch(path, init));
  } catch {
    signal?.throwIfAborted();
    throw lost(onSent && 'The connection ended before it was stored.');
  }
  const { status } = response;
  const errorBody: unknown = AWAY.has(status) ? await jsonOf(response.clone()) : null;
  if (AWAY.has(status) && !errorIn(errorBody)) throw lost();
  if (isLost) {
    isLost = false;
    dispatchEvent(new Event(BACK));
  }
  if (status === 401) setSignedOut(true);
  return Object.assign(response, { chunks: () => chunksOf(response.body!.getReader()) });
}

const jsonOf = (response: Response): Promise<unknown> => response.json().catch(() => null);

/** `fetch` does not tell how much it has sent. Rejects where the connection ends. */
function sendCounted(
  { path, method, headers, body, signal }: Sending,
  onSent: (bytes: number) => void,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, path);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = ({ loaded }) => onSent(loaded);
    xhr.onloadend = () =>
      xhr.status === 0 ? reject() : resolve(new Response(xhr.responseText || null, { status: xhr.status }));
    signal?.addEventListener('abort', () => xhr.abort());
    xhr.send(body as Blob | string);
  });
}

export const TRANSPORT: Transport<Response & Answer> = { url: location.origin, send };
