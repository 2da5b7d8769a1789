/** Asks the gateway: the client of the console, and requests for routes that have no key yet. */
import { type Answer, type CallOptions, GatewayClient, type Request } from '../protocol/http/client.ts';
import { TRANSPORT } from './fetch-transport.ts';

export { GatewayError } from '../protocol/http/gateway-error.ts';
export { BACK, isSignedOut, SIGNED_IN, SIGNED_OUT, setSignedOut, unreachable } from './fetch-transport.ts';

export const gateway = new GatewayClient(TRANSPORT);

/** The whole response, for what is not JSON. Rejects with a `GatewayError` unless it succeeded. */
export const request = (path: string, more: Partial<Request> = {}): Promise<Response & Answer> =>
  gateway.open({ method: 'GET', path, ...more });

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => gateway.get(path, { signal });

export const post = <T>(path: string, content: unknown = {}, options: CallOptions = {}): Promise<T> =>
  gateway.post(path, content, options);

export const put = <T>(path: string, content: unknown, options: CallOptions = {}): Promise<T> =>
  gateway.put(path, content, options);

export const patch = <T>(path: string, value: unknown): Promise<T> => gateway.patch(path, value);

export const remove = <T>(path: string): Promise<T> => gateway.delete(path);
