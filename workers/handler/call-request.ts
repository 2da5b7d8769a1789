/** Parses the body of a request. */
import { SvcError } from '../../protocol/errors.ts';

// App code could replace it.
const { parse } = JSON;

/** The request's JSON, which must be an object; an empty body is `{}`. Throws `BAD_REQUEST`. */
export function parseRequest(body: Uint8Array): Record<string, unknown> {
  if (body.length === 0) return {};
  let request: unknown;
  try {
    request = parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    throw new SvcError('BAD_REQUEST', 'The body is not valid JSON.');
  }
  if (typeof request !== 'object' || request === null || Array.isArray(request)) {
    throw new SvcError('BAD_REQUEST', 'The body must be a JSON object.');
  }
  return request as Record<string, unknown>;
}
