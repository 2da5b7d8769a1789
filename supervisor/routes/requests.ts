/** Reads and checks requests: JSON bodies and query strings, as promises for routes off the hot path. */
import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { sortedBy } from '../../protocol/routes/pieces.ts';
import { isTooDeep, membersOf, overLimit } from '../../protocol/rules/json-text.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import { Shape } from '../../protocol/shapes/shape.ts';
import type { Config } from '../config.ts';
import type { SubscribeOptions } from '../dispatch/change-streams.ts';
import type { Scope, ScopesOf } from '../dispatch/scope.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Params } from '../http/router.ts';

export type Body = Record<string, unknown>;

/** Members of a call that the dispatcher looks at. */
const TOOL_MEMBERS = ['app', 'query', 'action', 'input'];
const QUOTE = 0x22;
const WHOLE = /^\d{1,16}$/;

/**
 * The request as an object. Throws `BAD_REQUEST`; for what is deeper than `LIMITS.jsonDepth` or has more than `LIMITS.jsonValues`
 * before anything is parsed, which could hold the event loop for long.
 */
export function parseBody(bytes: Buffer): Body {
  if (bytes.length === 0) return {};
  const value = parseJson(bytes);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw noObject();
  return value as Body;
}

/** The request as any JSON value. Throws as `parseBody` does. */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw notJson('it is not UTF-8');
  checkShape(overLimit(bytes));
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw notJson((error as Error).message);
  }
}

/** The call that was looked at last. */
let looked: { readonly bytes: Buffer; readonly body: Body } | null = null;

/** What a call is about, before its route parses it: that takes it from here. Null where `parseCall` throws. */
export function lookAtCall(bytes: Buffer): Body | null {
  try {
    looked = { bytes, body: parseCall(bytes) };
    return looked.body;
  } catch {
    return null;
  }
}

/**
 * The members of a tool call; the app's own thread parses the whole body. From a body over `LIMITS.callParsedBytes` only the
 * members of `TOOL_MEMBERS` are taken, and the input as its JSON text. Throws as `parseBody` does.
 */
export function parseCall(bytes: Buffer): Body {
  if (looked?.bytes === bytes) {
    const { body } = looked;
    looked = null;
    return body;
  }
  if (bytes.length <= LIMITS.callParsedBytes) return parseBody(bytes);
  if (!isUtf8(bytes)) throw notJson('it is not UTF-8');
  try {
    const members = membersOf(bytes, TOOL_MEMBERS);
    if (members === null) {
      if (isTooDeep(bytes)) checkShape('depth');
      throw noObject();
    }
    // The dispatcher accepts only strings for these.
    const named = [...members].map(([name, json]) => [name, name === 'input' ? json : textOrNull(json)]);
    return Object.fromEntries(named) as Body;
  } catch (error) {
    throw error instanceof SvcError ? error : notJson((error as Error).message);
  }
}

/**
 * The body as a JSON object; an empty one is `{}`. Every route reads JSON with it, but for the tools. Must be called in the
 * turn in which the exchange was handed over.
 */
export async function readJson(exchange: Exchange): Promise<Body> {
  const bytes = await readBytes(exchange, LIMITS.requestBodyBytes);
  const body = parseBody(bytes);
  // To write again what was parsed takes as long.
  if (bytes.length > LIMITS.callParsedBytes) await nextTurn();
  return body;
}

/** The body as it is, of at most `limit` bytes. Called like `readJson`. */
export function readBytes(exchange: Exchange, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => exchange.readBody(limit, resolve, reject));
}

/**
 * The body as its shape says, called like `readJson`. `permit` gets the body before that, and throws where the caller may not do
 * what it asks for. Throws as `bodyOf` does.
 */
export async function readBody<T>(exchange: Exchange, shape: Shape<T>, permit?: (body: Body) => void): Promise<T> {
  const body = await readJson(exchange);
  permit?.(body);
  return bodyOf(body, shape);
}

/** The text of a member; null for anything else. */
export function nameIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * What the shape does not tell of is left out, and a member that is null and may not be is as one that is missing. Throws
 * `BAD_REQUEST`.
 */
export function bodyOf<T>(given: Body, shape: Shape<T>): T {
  const { properties = {}, additionalProperties } = shape.schema;
  const isGiven = ([name, value]: [string, unknown]) => {
    if (!Object.hasOwn(properties, name)) return additionalProperties !== undefined;
    return value !== null || new Shape(properties[name] ?? {}).holds(null);
  };
  const body = Object.fromEntries(Object.entries(given).filter(isGiven));
  return shape.checked(body, 'BAD_REQUEST', 'The body');
}

/** The parameters of the query string that the shape names: texts and integers. Throws `BAD_REQUEST`. */
export function paramsOf<T>(query: URLSearchParams, shape: Shape<T>): T {
  const named = Object.entries(shape.schema.properties ?? {});
  const given = named.map(([name, { type }]) => {
    const text = query.get(name);
    return [name, type === 'integer' && text !== null && WHOLE.test(text) ? Number(text) : text];
  });
  return bodyOf(Object.fromEntries(given), shape);
}

/** Throws `BAD_REQUEST` for the member or parameter at `path`. */
export function refuse(path: string, message: string): never {
  throw new SvcError('BAD_REQUEST', message, { path });
}

/** The query string's parameters. Throws `BAD_REQUEST` when it cannot be decoded. */
export function queryOf(exchange: Exchange): URLSearchParams {
  try {
    decodeURIComponent(exchange.query.replaceAll('+', ' '));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The query string has a percent sign that encodes nothing.');
  }
  return new URLSearchParams(exchange.query);
}

/** The app or draft that an address names, which exists. Rejects with `INVALID_ID`, `RESERVED_ID`, `NO_GIT_STORE`, and as `Scope.exists`. */
export async function scopeOf(scopes: ScopesOf, { sid, id = '' }: Params): Promise<Scope> {
  checkAppId(id);
  const scope = scopes(sid).of(id);
  await scope.exists();
  return scope;
}

/** The request for a change stream; `version` is the served one, null for none. */
export function subscriptionOf(exchange: Exchange, version: string | null): SubscribeOptions {
  const query = queryOf(exchange);
  const tables = query.get('tables')?.split(',').filter(Boolean);
  const shown = query.get('version');
  const lastEventId = exchange.header('last-event-id');
  return {
    ...(tables ? { tables } : {}),
    ...(lastEventId === undefined ? {} : { lastEventId }),
    stale: shown !== null && version !== null && shown !== version,
  };
}

/**
 * A page of a list that is sorted by key: the first `limit` rows behind `after`, or the last ones before `before`. Throws
 * `BAD_REQUEST` for a key that cannot be one.
 */
export function pageOf<T>(
  { limit = LIMITS.listRowsMax, after, before }: Of<ReturnType<typeof sortedBy>>,
  rows: T[],
  keyOf: (row: T) => string,
  isKey: (key: string) => boolean,
): T[] {
  for (const [name, key] of Object.entries({ after, before }))
    if (key !== undefined && !isKey(key)) refuse(name, `"${name}" must be one of the list's own keys.`);
  if (after === undefined && before === undefined && rows.length <= limit) return rows;
  const between = rows.filter(
    (row) => (after === undefined || keyOf(row) > after) && (before === undefined || keyOf(row) < before),
  );
  return before === undefined ? between.slice(0, limit) : between.slice(-limit);
}

/** Where the gateway is reached: the address it listens on, else the one that the caller used, whose header `host` is `host`. */
export function originOf(host: string | undefined, listening: { url: string } | null): string {
  return (listening?.url ?? `http://${host ?? 'localhost'}`).replace(/\/+$/, '');
}

/** Where others reach the gateway, for the addresses of webhooks: `publicUrl` of the configuration, else as `originOf`. */
export function publicOriginOf(
  host: string | undefined,
  { config, listening }: { config: Pick<Config, 'publicUrl'>; listening(): { url: string } | null },
): string {
  return config.publicUrl ?? originOf(host, listening());
}

/** Throws `BAD_REQUEST` for JSON that is over a limit of `overLimit`. */
export function checkShape(over: ReturnType<typeof overLimit>): void {
  if (over === 'depth') throw new SvcError('BAD_REQUEST', `The body nests deeper than ${LIMITS.jsonDepth} levels.`);
  if (over === 'values')
    throw new SvcError('BAD_REQUEST', `The body has more than ${LIMITS.jsonValues} values; send it in parts.`);
}

function textOrNull(json: Uint8Array): unknown {
  return json[0] === QUOTE ? JSON.parse(Buffer.from(json).toString()) : null;
}

function notJson(why: string): SvcError {
  return new SvcError('BAD_REQUEST', `The body is not JSON: ${why}.`);
}

function noObject(): SvcError {
  return new SvcError('BAD_REQUEST', 'The body must be a JSON object.');
}
