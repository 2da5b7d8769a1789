/** Serves the routes that rows declare: checks what is sent as the row says, asks for the right, and sends what the handler gives. */
import { SvcError } from '../../protocol/errors.ts';
import {
  type AnswerOf,
  type BodyOf,
  type Capability,
  type Given,
  type NeedsOf,
  type ParamsOf,
  pathsOf,
  type QueryOf,
  type RouteRow,
} from '../../protocol/routes/row.ts';
import { isNamed, subjectsOf } from '../../protocol/routes/subjects.ts';
import type { Schema } from '../../protocol/shapes/schema.ts';
import { Shape } from '../../protocol/shapes/shape.ts';
import type { Exchange, ResponseHeaders } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/grants.ts';
import type { Place } from '../http/access/places.ts';
import { answerJson, NO_STORE } from '../http/answers.ts';
import type { Handle, Needs, Route } from '../http/router.ts';
import { ROUTE_KINDS, routeKind } from '../operations/metrics/http-meter.ts';
import { type Body, bodyOf, nameIn, paramsOf, queryOf, readJson } from './requests.ts';

const SUBJECTS = subjectsOf();

/** A request that is as its row says. `headers` has those that the row names, and `host`. */
export type Request<R extends RouteRow> = {
  /** `sid` is there below `/svc/_draft/`. */
  readonly params: ParamsOf<R> & { readonly sid?: string };
  readonly query: QueryOf<R>;
  readonly body: BodyOf<R>;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly caller: Caller;
  readonly place: Place;
  readonly exchange: Exchange;
};

/** An answer with another status than its row's, or with headers. */
export class Reply<T> {
  readonly value: T;
  readonly headers: ResponseHeaders;
  readonly status: number | undefined;

  constructor(value: T, headers: ResponseHeaders, status?: number) {
    this.value = value;
    this.headers = headers;
    this.status = status;
  }
}

/** What a handler gives that has answered by itself: with a stream, or with text that was ready. */
export const ANSWERED: { readonly answered: true } = { answered: true };

type Result<R extends RouteRow> = Given<AnswerOf<R>> | Reply<Given<AnswerOf<R>>> | typeof ANSWERED;
type Work<R extends RouteRow> = (request: Request<R>) => Result<R> | Promise<Result<R>>;

/** The route of a row, and with `drafts` the one below `/svc/_draft/:sid` too. `work` gives what is answered as JSON. */
export function serve<R extends RouteRow>(row: R, work: Work<R>): Route[] {
  const { answer } = row;
  const read = reader(row);
  return serveRaw(row, async (exchange, params, caller, place) => {
    const request = { ...(await read(exchange, caller)), params, caller, place, exchange };
    const given = await work(request as unknown as Request<R>);
    if (given === ANSWERED) return;
    const { value, headers, status } = given instanceof Reply ? given : new Reply(given, NO_STORE);
    const sent = status ?? answer.status ?? 200;
    if (answer.json === undefined) exchange.send(sent, headers, '');
    else answerJson(exchange, sent, value, headers);
  });
}

/** The same for a handler that reads and answers by itself: streams, files, and the calls of tools. */
export function serveRaw(row: RouteRow, handle: Handle): Route[] {
  const { method, visitors, isFile } = row;
  const needs: Needs = typeof row.needs === 'string' ? row.needs : 'route';
  const file = isFile === undefined ? {} : { isFile };
  const subject = SUBJECTS.get(row);
  const about = isNamed(subject) && subject.of !== 'trashed' && subject.in !== 'body' ? { about: subject } : {};
  return pathsOf(row).map((path): Route => {
    // Visitors never use drafts.
    const open = visitors === undefined || path !== row.path ? {} : { visitors };
    return { method, path, needs, handle, kind: ROUTE_KINDS.indexOf(routeKind(path)), ...about, ...file, ...open };
  });
}

/** Reads what a row names: first what the edge has only in this turn, then the body. */
function reader(row: RouteRow) {
  const query = row.query === undefined ? null : new Shape<Body>(row.query);
  const json = row.body === undefined || 'media' in row.body ? null : row.body;
  const body = json === null ? null : new Shape<Body>(json);
  const names = ['host', ...Object.keys(row.headers ?? {})];
  const asked = typeof row.needs === 'string' ? null : row.needs;
  return async (exchange: Exchange, caller: Caller) => {
    const headers = Object.fromEntries(names.map((name) => [name, exchange.header(name)]));
    const given = query === null ? null : queryOf(exchange);
    if (asked !== null && has(row.query, asked.of)) demandNamed(caller, asked, given?.get(asked.of) ?? null);
    const parameters = given === null || query === null ? {} : paramsOf(given, query);
    if (body === null) return { headers, query: parameters, body: undefined };
    const sent = await readJson(exchange);
    // It may have taken minutes to arrive.
    if (caller.ended) throw new SvcError('FORBIDDEN', caller.refusal(null));
    if (asked !== null && has(json, asked.of)) demandNamed(caller, asked, nameIn(sent[asked.of]));
    return { headers, query: parameters, body: bodyOf(sent, body) };
  };
}

function has(schema: Schema | null | undefined, name: string): boolean {
  return schema?.properties?.[name] !== undefined;
}

/** Throws as `demand`. */
function demandNamed(caller: Caller, { right, without = right }: NeedsOf, app: string | null): void {
  const needed: Capability = app === null ? without : right;
  demand(caller, needed, app);
}
