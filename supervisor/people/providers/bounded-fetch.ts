/** Fetches from providers of sign-ins, without a redirect, at most so much, and over HTTPS but on this machine. */
import { LIMITS } from '../../../protocol/limits.ts';
import { isSecureAddress } from '../../../protocol/shapes/formats.ts';
import { DeliveryError } from '../../notices/delivery.ts';

type Options = {
  method: string;
  headers: Headers | Record<string, string>;
  body?: RequestInit['body'];
  signal?: AbortSignal | undefined;
};

/** Rejects with `DeliveryError` for another address, and for a longer answer; with what `fetch` throws. `signal` limits the time. */
export async function boundedFetch(
  url: string,
  { method, headers: sent, body = null, signal }: Options,
): Promise<Response> {
  if (!isSecureAddress(new URL(url)))
    throw new DeliveryError(`It names an address without https, ${new URL(url).origin}.`);
  const response = await fetch(url, { method, headers: sent, body, signal: signal ?? null, redirect: 'manual' });
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > LIMITS.providerAnswerBytes) throw new DeliveryError('Its answer is too long.');
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(bytes === 0 ? null : Buffer.concat(chunks), { status, headers });
}
