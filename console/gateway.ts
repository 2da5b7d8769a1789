/** Asks the gateway: JSON over its HTTP routes, with errors of one shape. */

import type { ErrorBody, InputIssue } from '../protocol/errors.ts';
import { allRows, errorIn } from '../protocol/http/client.ts';
import { keyHeaders } from './bridge/page-key.ts';

/** What the gateway answered instead of a result. `status` is 0 when no answer came. */
export class GatewayError extends Error {
  readonly status: number;
  readonly code: string;
  /** The member of the request that is wrong, where one is. */
  readonly path: string | undefined;
  /** Everything that is wrong, where there is more than one thing. */
  readonly issues: readonly InputIssue[];
  /** Those of a `MERGE_CONFLICT`. */
  readonly files: readonly string[];

  constructor(status: number, { code, message, path, issues = [], files = [] }: ErrorBody) {
    super(message);
    this.status = status;
    this.code = code;
    this.path = path;
    this.issues = issues;
    this.files = files;
  }
}

export const unreachable = (message = 'The gateway does not answer. Is it running?'): GatewayError =>
  new GatewayError(0, { code: 'UNREACHABLE', message });

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

/** As `fetch`, with what lets the console call the gateway. */
export const call = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(path, { ...init, headers: { ...keyHeaders(), ...(init.headers as Record<string, string> | undefined) } });

/** What an answer of this status means, by the gateway's `error` in it if there is one. */
export const refusal = (status: number, error: ErrorBody | undefined): GatewayError =>
  new GatewayError(status, error ?? { code: 'INTERNAL', message: `The gateway answered with status ${status}.` });

/** The whole response, for what is not JSON. Rejects with a `GatewayError` unless it succeeded. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await call(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    isLost = true;
    throw unreachable();
  }
  const error = response.ok ? undefined : errorIn(await response.json().catch(() => null));
  if (!error && AWAY.has(response.status)) {
    isLost = true;
    throw unreachable();
  }
  if (isLost) {
    isLost = false;
    dispatchEvent(new Event(BACK));
  }
  if (response.ok) return response;
  if (response.status === 401) setSignedOut(true);
  throw refusal(response.status, error);
}

async function answer<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await request(path, init);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** A value as a body; bytes are sent as they are. */
const bodyOf = (value: unknown): BodyInit =>
  value instanceof Blob || typeof value === 'string' ? value : JSON.stringify(value);

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => answer<T>(path, signal ? { signal } : {});

export const post = <T>(path: string, value: unknown = {}, signal?: AbortSignal): Promise<T> =>
  answer<T>(path, { method: 'POST', body: bodyOf(value), ...(signal && { signal }) });

export const put = <T>(path: string, value: unknown, headers: Record<string, string> = {}): Promise<T> =>
  answer<T>(path, { method: 'PUT', body: bodyOf(value), headers });

export const patch = <T>(path: string, value: unknown): Promise<T> =>
  answer<T>(path, { method: 'PATCH', body: bodyOf(value) });

export const remove = <T>(path: string): Promise<T> => answer<T>(path, { method: 'DELETE' });

/** Every row of a list: `next` stands between its address and the id of the last row, for the page after that. */
export const getAll = <T extends { id: string }>(list: string, next: string, signal: AbortSignal): Promise<T[]> =>
  allRows((last?: T) => get<T[]>(last ? list + next + encodeURIComponent(last.id) : list, signal));

/** A path with its parts encoded: path`/svc/_apps/${id}/versions`. */
export function path(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return String.raw({ raw: strings }, ...parts.map((part) => encodeURIComponent(String(part))));
}
