/** Compares what the gateway answers with the rows of its routes. */
import { appendFileSync } from 'node:fs';
import { ERROR } from '../protocol/errors.ts';
import type { ServerSentEvent } from '../protocol/http/event-stream.ts';
import { BEFORE_ROUTES, errorCodesOf } from '../protocol/routes/refusals.ts';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { pathsOf, type RouteRow } from '../protocol/routes/row.ts';
import { object, type Schema, text } from '../protocol/shapes/schema.ts';
import { inWords, isRecord, Shape } from '../protocol/shapes/shape.ts';
import { type Route, Router } from '../supervisor/http/router.ts';

type Sent = { readonly status: number; readonly headers: Readonly<Record<string, unknown>>; readonly text: string };

/** A file that gets a line for each route, with the status of its answer, that a test process sees for the first time. */
const LOG = process.env.SVC_TEST_ROUTES;
/** Characters of an answer that a failure shows. */
const SHOWN_CHARS = 1000;

/** The answers of one route, live or of drafts. */
class Answers {
  readonly name: string;
  readonly #row: RouteRow;
  readonly #statuses: ReadonlySet<number>;
  readonly #codes: ReadonlySet<string>;
  readonly #json: Shape<unknown> | null;
  readonly #refusal: Shape<{ error: { code: string } }>;
  readonly #events = new Map<string, Shape<unknown>>();
  readonly #logged = new Set<number>();

  constructor(row: RouteRow, path: string) {
    const { method, answer, runs } = row;
    this.name = `${method} ${path}`;
    this.#row = row;
    this.#statuses = new Set([answer.status ?? 200, ...Object.keys(answer.also ?? {}).map(Number)]);
    this.#codes = new Set([...BEFORE_ROUTES, ...errorCodesOf(row, path)]);
    this.#json = answer.json === undefined ? null : new Shape(strict(answer.json));
    this.#refusal = new Shape(strict(object({ isError: { const: true }, error: ERROR }, runs ? { runId: text } : {})));
  }

  /** What is wrong with an answer; null for one that is right. */
  fault({ status, headers, text: body }: Sent): string | null {
    this.#log(status);
    // What the handler of an automation gave as its response.
    if (this.#row.runs && String(headers['content-security-policy']).includes('sandbox')) return null;
    // A file may say that it is JSON and be none.
    const isFile = status < 400 && this.#json === null && this.#row.answer.media !== undefined;
    const type = headers['content-encoding'] === undefined && !isFile ? String(headers['content-type']) : '';
    const value: unknown = /^application\/json\b/.test(type) && body !== '' ? JSON.parse(body) : undefined;
    // A browser gets a page.
    if (status >= 400 && value === undefined) return null;
    if (status >= 400 && isRecord(value) && value.isError === true) return this.#faultOfRefusal(value);
    const isOfTool = isRecord(value) && value.isError === false;
    // Browsers are sent on (to sign in, to the origin of a page, to its address with a slash), or have the file.
    if (status >= 300 && status < 400) return null;
    // An action answers with any status.
    if (!isOfTool && !this.#statuses.has(status)) return `it has no status ${status}`;
    return this.#faultOfValue(value, status, type);
  }

  /** What is wrong with an event; null for one that is right, and where the row says nothing of events. */
  faultOfEvent({ event, data }: ServerSentEvent): string | null {
    this.#log(200);
    const schemas = this.#row.answer.events;
    if (schemas === undefined) return null;
    const schema = Object.hasOwn(schemas, event) ? schemas[event] : undefined;
    if (schema === undefined) return `it has no event ${event}`;
    const known = this.#events.get(event) ?? new Shape(strict(schema));
    this.#events.set(event, known);
    const fault = known.fault(JSON.parse(data));
    return fault === null ? null : inWords(fault, 'the data');
  }

  #faultOfRefusal(value: object): string | null {
    const fault = this.#refusal.fault(value);
    if (fault !== null) return inWords(fault, 'the error');
    const { code } = (value as { error: { code: string } }).error;
    return this.#row.runs || this.#codes.has(code) ? null : `it has no error ${code}`;
  }

  #faultOfValue(value: unknown, status: number, type: string): string | null {
    if (this.#json === null)
      return value === undefined || this.#row.answer.media !== undefined ? null : 'it has no JSON';
    // Followed, or one of its other statuses.
    if (value === undefined && (type === 'text/event-stream' || status !== (this.#row.answer.status ?? 200)))
      return null;
    const fault = this.#json.fault(value);
    return fault === null ? null : inWords(fault, 'the answer');
  }

  #log(status: number): void {
    if (LOG === undefined || this.#logged.has(status)) return;
    this.#logged.add(status);
    appendFileSync(LOG, `${this.name} ${status}\n`);
  }
}

const rows = new Map<Route, [row: RouteRow, path: string]>();
const known = new Map<Route, Answers>();
let router: Router | null = null;

/**
 * Throws where an answer is not as the row of its route says: a success as its schema, an error as the one shape that errors have,
 * with a code that the row names. An object has only members that its schema names, unless it says what others are.
 */
export function checkAnswer(method: string, address: string, sent: Sent): void {
  const answers = method === 'HEAD' ? null : answersOf(method, address);
  refuse(answers, answers?.fault(sent), `${method} ${address} answered ${sent.status} ${shown(sent.text)}`);
}

/** The same for an event of a stream. */
export function checkEvent(method: string, address: string, sent: ServerSentEvent): void {
  const answers = answersOf(method, address);
  refuse(answers, answers?.faultOfEvent(sent), `${method} ${address} sent ${sent.event} ${shown(sent.data)}`);
}

function refuse(answers: Answers | null, fault: string | null | undefined, what: string): void {
  if (typeof fault === 'string') throw new Error(`The row of ${answers?.name} says another answer: ${fault}\n${what}`);
}

function shown(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}

/** Null for addresses without a route, such as those of a host's own. */
function answersOf(method: string, address: string): Answers | null {
  router ??= new Router(RESOURCES.flatMap((resource) => resource.rows.flatMap(routesOf)));
  // The name of a tool may be escaped.
  const path = (address.split('?', 1)[0] as string).replace(/%5f/gi, '_');
  const found = router.match(method, path);
  if ('error' in found) return null;
  const answers = known.get(found.route) ?? new Answers(...(rows.get(found.route) as [RouteRow, string]));
  known.set(found.route, answers);
  return answers;
}

function routesOf(row: RouteRow): Route[] {
  return pathsOf(row).map((path) => {
    const route: Route = { method: row.method, path, needs: 'anyone', kind: 0, handle: () => {} };
    rows.set(route, [row, path]);
    return route;
  });
}

/** The schema of objects without other members, which tells each fault where it is. */
function strict(schema: Schema): Schema {
  const { properties, items, prefixItems, anyOf, additionalProperties: others } = schema;
  const named = properties && Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, strict(one)]));
  return {
    wanted: wantedOf(schema),
    ...schema,
    ...(named && { properties: named, additionalProperties: false }),
    ...(others && { additionalProperties: strict(others) }),
    ...(items && { items: strict(items) }),
    ...(prefixItems && { prefixItems: prefixItems.map(strict) }),
    ...(anyOf && { anyOf: anyOf.map(strict) }),
  };
}

function wantedOf({ const: only, enum: values, type, anyOf }: Schema): string {
  if (only !== undefined) return JSON.stringify(only);
  if (values !== undefined) return `one of ${values.join(', ')}`;
  return type === undefined ? `there, as one of ${anyOf?.length ?? 'all'} shapes` : [type].flat().join(' or ');
}
