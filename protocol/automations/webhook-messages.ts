/**
 * Types of the request that a webhook's handler gets and of the response that it may give (specification,
 * "Messages of webhooks").
 */
import { SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';

/** A request as the handler gets it, beside its input. */
export type WebhookRequest = {
  /** By lower-case name, without credentials; repeated headers are joined by `, `. */
  headers: Record<string, string>;
  /** The media type in lower case, without parameters; null where the sender named none. */
  contentType: string | null;
  /** The body, byte for byte: it is UTF-8. */
  rawBody: string;
};

/** The handler's answer to the sender. */
export type WebhookResponse = { status: number; headers: Record<string, string>; body: string };

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
/** Headers that only the gateway sets: for the connection and for its own origin. */
const OWN_HEADER =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|date|set-cookie2?|access-control-.*|strict-transport-security|clear-site-data|service-worker-allowed|alt-svc)$/;
const WITHOUT_BODY = [204, 205, 304];

/**
 * `response` of what a handler returned, a JSON value: null where it is absent or null. A body that is not a string is sent as
 * JSON, and both have their type unless the headers name one. Throws `HANDLER_ERROR` with the member's `path`.
 */
export function webhookResponse(value: unknown): WebhookResponse | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) throw fault('', 'must be an object { status, headers?, body }');
  const { status, headers = {}, body = null } = value;
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 499)
    throw fault('.status', 'must be a whole number from 200 to 499');
  if (!isObject(headers)) throw fault('.headers', 'must be an object of texts');
  const isEmpty = body === null;
  const text = typeof body === 'string' ? body : isEmpty ? '' : JSON.stringify(body);
  if (!isEmpty && WITHOUT_BODY.includes(status as number)) throw fault('.body', `must be left out with ${status}`);
  if (Buffer.byteLength(text) > LIMITS.webhookResponseBytes)
    throw fault('.body', `may have at most ${LIMITS.webhookResponseBytes} bytes`);
  const type = isEmpty
    ? {}
    : { 'content-type': `${typeof body === 'string' ? 'text/plain' : 'application/json'}; charset=utf-8` };
  return { status: status as number, headers: { ...type, ...checkedHeaders(headers) }, body: text };
}

function checkedHeaders(headers: Record<string, unknown>): Record<string, string> {
  let bytes = 0;
  const checked = Object.entries(headers).map(([given, value]): [string, string] => {
    const name = given.toLowerCase();
    const path = `.headers.${given.slice(0, 100)}`;
    if (!HEADER_NAME.test(name)) throw fault(path, 'is no name of a header');
    if (OWN_HEADER.test(name)) throw fault(path, 'is set by the gateway alone');
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw fault(path, 'must be a text of printable ASCII characters');
    bytes += name.length + value.length;
    return [name, value];
  });
  if (bytes > LIMITS.webhookResponseHeaderBytes)
    throw fault('.headers', `may have at most ${LIMITS.webhookResponseHeaderBytes} bytes`);
  return Object.fromEntries(checked);
}

function fault(path: string, what: string): SvcError {
  const member = `response${path}`;
  return new SvcError('HANDLER_ERROR', `"${member}" of what the handler returned ${what}.`, { path: member });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
