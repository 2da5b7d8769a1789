/** Reading requests: JSON bodies and query strings, checked, as promises for the routes off the hot path. */
import { isUtf8 } from 'node:buffer';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange } from '../edge/edge.ts';

export type Body = Record<string, unknown>;

/** The request as an object. Throws `BAD_REQUEST`. */
export function parseBody(bytes: Buffer): Body {
  if (bytes.length === 0) return {};
  let value: unknown;
  try {
    if (!isUtf8(bytes)) throw new Error('it is not UTF-8');
    value = JSON.parse(bytes.toString());
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `The body is not JSON: ${(error as Error).message}.`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SvcError('BAD_REQUEST', 'The body must be a JSON object.');
  }
  return value as Body;
}

/** The body as a JSON object; an empty one is `{}`. Must be called in the turn in which the exchange was handed over. */
export function readJson(exchange: Exchange): Promise<Body> {
  return new Promise((resolve, reject) => {
    exchange.readBody(
      LIMITS.requestBodyBytes,
      (bytes) => {
        try {
          resolve(parseBody(bytes));
        } catch (error) {
          reject(error as Error);
        }
      },
      reject,
    );
  });
}

/** The body as it is, of at most `limit` bytes. Called like `readJson`. */
export function readBytes(exchange: Exchange, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => exchange.readBody(limit, resolve, reject));
}

/** A member that may be missing or null. Throws `BAD_REQUEST` when it is no string, is empty, or is too long. */
export function optionalText(body: Body, name: string, mostChars: number = LIMITS.textChars): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string' && value.trim() !== '' && value.length <= mostChars) return value;
  throw new SvcError('BAD_REQUEST', `"${name}" must be a text of 1 to ${mostChars} characters.`, { path: name });
}

/** The query string's parameters. Throws `BAD_REQUEST` when it cannot be decoded. */
export function queryOf(exchange: Exchange): URLSearchParams {
  try {
    decodeURIComponent(exchange.query.replaceAll('+', ' '));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The query string holds a percent sign that encodes nothing.');
  }
  return new URLSearchParams(exchange.query);
}

/** A whole number from the query string, within bounds; `fallback` when it is not given. */
export function integerOf(query: URLSearchParams, name: string, fallback: number, max: number): number {
  const text = query.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (!/^\d{1,16}$/.test(text) || value < 1 || value > max) {
    throw new SvcError('BAD_REQUEST', `"${name}" must be a whole number from 1 to ${max}.`, { path: name });
  }
  return value;
}

/**
 * Where the gateway is reached: the address it listens on, else the one that the caller used. Must be called in the turn in
 * which the exchange was handed over.
 */
export function originOf(exchange: Exchange, listening: { url: string } | null): string {
  return (listening?.url ?? `http://${exchange.header('host') ?? 'localhost'}`).replace(/\/+$/, '');
}
