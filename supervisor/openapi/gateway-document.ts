/** Makes the OpenAPI document of the gateway from its table of routes (specification, "OpenAPI documents"). */
import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts';
import { RESOURCES } from '../../protocol/routes/all.ts';
import { PARAMETERS } from '../../protocol/routes/pieces.ts';
import type { RouteRow } from '../../protocol/routes/row.ts';
import type { Schema } from '../../protocol/shapes/schema.ts';
import type { Route } from '../http/router.ts';
import { type BodyMembers, bodyOf, queryOf, type ReferenceRow, readReference } from './reference.ts';
import { COMPONENTS, ERROR_CONTENT, HEADER, type Json, SECURITY } from './shared.ts';

/** Every route can answer these; `UNAUTHORIZED` and `FORBIDDEN` not those that need no token. */
const GENERAL: ErrorCode[] = ['BAD_REQUEST', 'PAYLOAD_TOO_LARGE', 'OVERLOADED', 'INTERNAL'];
const CLOSED: ErrorCode[] = ['UNAUTHORIZED', 'FORBIDDEN'];
const OF_DRAFTS: ErrorCode[] = ['UNKNOWN_SESSION', 'NO_GIT_STORE'];

/** Bodies that are no JSON, by what the reference says of them. */
const RAW_BODIES: [says: RegExp, type: string][] = [
  [/^a gzipped tar archive/, 'application/gzip'],
  [/^(?:any )?bytes|^a git bundle .* into /, 'application/octet-stream'],
  [/Any body/, '*/*'],
];

export function gatewayDocument(routes: readonly Route[], version: string): Json {
  const reference = readReference();
  const operationIds = new Set<string>();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = templateOf(route.path);
    paths[path] ??= {};
    if (route.row !== undefined) {
      const one = declared(route, route.row, uniqueId(route, operationIds));
      (paths[path] as Json)[route.method.toLowerCase()] = one;
      continue;
    }
    const row = reference.get(`${route.method} ${route.path}`) ?? { section: 'Other', answers: '', codes: [] };
    // Routes of drafts that mirror the live app's are described there.
    const live = row.answers.startsWith('as ') ? reference.get(`${route.method} ${liveOf(route.path)}`) : undefined;
    const id = uniqueId(route, operationIds);
    (paths[path] as Json)[route.method.toLowerCase()] = operation(route, row, live?.answers ?? row.answers, id);
  }
  const tags = [
    ...RESOURCES.map(({ name }) => name),
    ...new Set([...reference.values()].map(({ section }) => section)),
  ];
  const description =
    'An application gateway. Times are milliseconds since the epoch, sizes bytes; an empty body counts as `{}`.';
  return {
    ...HEADER,
    info: { title: 'svc gateway', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    tags: tags.map((name) => ({ name })),
    paths,
    components: COMPONENTS,
  };
}

/** `/svc/:id/*` → `/svc/{id}/{path}`. */
export function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{path}');
}

/** The route of the live app that a route of a draft is like. */
function liveOf(path: string): string {
  return path.replace('/_draft/:sid/', '/');
}

/** The operation of a route that a row declares. */
function declared(route: Route, row: RouteRow, operationId: string): Json {
  const { answer, body, errors = {}, drafts } = row;
  const isOpen = row.needs === 'anyone';
  const isDraft = route.path !== row.path;
  const differs = isDraft && typeof drafts === 'string' ? drafts : '';
  const parameters = parametersOf(row, route.path);
  return {
    operationId,
    tags: [RESOURCES.find(({ rows }) => rows.includes(row))?.name ?? 'Other'],
    summary: row.title,
    description: [row.does, answer.says, differs].filter(Boolean).join(' '),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: sent(body) }),
    responses: {
      ...answered(row),
      ...failures([
        ...GENERAL,
        ...(isOpen ? [] : CLOSED),
        ...(isDraft ? OF_DRAFTS : []),
        ...(Object.keys(errors) as ErrorCode[]),
      ]),
      default: { $ref: '#/components/responses/Error' },
    },
    security: isOpen ? [] : [...SECURITY, ...(isDraft || row.visitors === undefined ? [] : [{}])],
    'x-svc-needs': route.needs,
  };
}

/** What is sent beside the body. `path` is that of the row, or of the same for drafts. */
export function parametersOf(row: RouteRow, path: string): Json[] {
  const named = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  const description = (name: string) => row.params?.[name] ?? PARAMETERS[name] ?? '';
  const required = new Set(row.query?.required ?? []);
  return [
    ...named.map((name) => pathParameter(name, description(name))),
    ...(path.endsWith('*') ? [pathParameter('path', description('*'))] : []),
    ...Object.entries(row.query?.properties ?? {}).map(([name, schema]) => ({
      name,
      in: 'query',
      ...(required.has(name) ? { required: true } : {}),
      schema: published(schema),
    })),
    ...Object.entries(row.headers ?? {}).map(([name, text]) => ({
      name,
      in: 'header',
      description: text,
      schema: { type: 'string' },
    })),
  ];
}

export function sent(body: NonNullable<RouteRow['body']>): Json {
  if ('media' in body) return { required: true, description: body.says, content: { [body.media]: {} } };
  const required = (body.required ?? []).length > 0;
  return { ...(required ? { required } : {}), content: { 'application/json': { schema: published(body) } } };
}

function answered({ answer, example }: RouteRow): Json {
  const { status = 200, json, media, says = 'Done.', also = {}, headers = {} } = answer;
  const schema = json === undefined ? {} : { schema: published(json) };
  const shown = example === undefined ? {} : { example };
  const type = media ?? (json === undefined ? null : 'application/json');
  const named = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  const whole = {
    description: says,
    ...(named.length === 0 ? {} : { headers: Object.fromEntries(named) }),
    ...(type === null ? {} : { content: { [type]: { ...schema, ...shown } } }),
  };
  const others = Object.entries(also).map(([code, description]) => [code, { ...whole, description }]);
  return { [status]: whole, ...Object.fromEntries(others) };
}

/** A schema as others know it: `wanted` and `says` become its description, and what is ours alone goes. */
export function published(schema: Schema): Json {
  const { wanted, says, cut: _cut, format: _format, properties, items, prefixItems, anyOf, ...rest } = schema;
  const { additionalProperties, propertyNames, ...plain } = rest;
  const text = says ?? (properties === undefined && items === undefined ? wanted : undefined);
  const of = (inner: Schema | false) => (inner === false ? false : published(inner));
  return {
    ...plain,
    ...(text === undefined ? {} : { description: text }),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, published(inner)])),
        }),
    ...(items === undefined ? {} : { items: published(items) }),
    ...(prefixItems === undefined ? {} : { prefixItems: prefixItems.map(published) }),
    ...(anyOf === undefined ? {} : { anyOf: anyOf.map(published) }),
    ...(propertyNames === undefined ? {} : { propertyNames: published(propertyNames) }),
    ...(additionalProperties === undefined ? {} : { additionalProperties: of(additionalProperties) }),
  };
}

/** `form` is the text that says what is sent and answered. */
function operation(route: Route, { section, answers, codes }: ReferenceRow, form: string, operationId: string): Json {
  const { method, path, needs, visitors } = route;
  const isOpen = needs === 'anyone';
  const body = method === 'GET' ? null : requestBody(form, method);
  const named = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  const parameters = [
    ...named.map((name) => pathParameter(name)),
    ...(path.endsWith('*') ? [pathParameter('path', 'The rest of the path; it may have slashes.')] : []),
    ...queryOf(form).map((name) => ({ name, in: 'query', schema: { type: 'string' } })),
  ];
  return {
    operationId,
    tags: [section],
    ...(answers === '' ? {} : { description: answers }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === null ? {} : { requestBody: body }),
    responses: {
      ...successes(route, form),
      ...failures([...GENERAL, ...(isOpen ? [] : CLOSED), ...codes]),
      default: { $ref: '#/components/responses/Error' },
    },
    security: isOpen ? [] : [...SECURITY, ...(visitors === undefined ? [] : [{}])],
    'x-svc-needs': needs,
  };
}

function pathParameter(name: string, description?: string): Json {
  return {
    name,
    in: 'path',
    required: true,
    ...(description === undefined ? {} : { description }),
    schema: { type: 'string' },
  };
}

function requestBody(answers: string, method: string): Json | null {
  const raw = RAW_BODIES.find(([says]) => says.test(answers));
  if (raw) return { required: true, content: { [raw[1]]: {} } };
  const members = bodyOf(answers);
  if (members !== null) return { content: { 'application/json': { schema: schemaOf(members) } } };
  if (method === 'PUT' || /JSON-RPC/.test(answers))
    return { content: { 'application/json': { schema: { type: 'object' } } } };
  return null;
}

function schemaOf(members: BodyMembers): Json {
  const required = members.filter(({ optional }) => !optional).map(({ name }) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(members.map(({ name }) => [name, {}])),
    ...(required.length === 0 ? {} : { required }),
  };
}

function successes({ needs, path }: Route, answers: string): Json {
  const statuses = [
    ...new Set([...answers.matchAll(/(?:→|or|answers) (20[0-9])\b/g)].map(([, status = '']) => status)),
  ];
  const type = /text\/event-stream|\[?events of a turn|the events|its events|the stream/i.test(answers)
    ? 'text/event-stream'
    : path === '/svc/_metrics'
      ? 'text/plain'
      : /application\/gzip/.test(answers)
        ? 'application/gzip'
        : needs === 'page' || (needs === 'anyone' && !answers.includes('{'))
          ? '*/*'
          : 'application/json';
  const [, header] = /answer's header `([a-z-]+)`/.exec(answers) ?? [];
  const headers = header === undefined ? {} : { headers: { [header]: { schema: { type: 'string' } } } };
  const answer = { description: 'Done.', ...headers, content: { [type]: {} } };
  return Object.fromEntries((statuses.length === 0 ? ['200'] : statuses).map((status) => [status, answer]));
}

/** One response for each status, with the codes that it may have. */
function failures(codes: ErrorCode[]): Json {
  const byStatus = new Map<number, string[]>();
  for (const code of new Set(codes)) {
    const { status } = ERROR_CODES[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      String(status),
      { description: names.map((name) => `\`${name}\``).join(', '), content: ERROR_CONTENT },
    ]),
  );
}

/** `GET /svc/_apps/:id/versions` → `get_apps_id_versions`. */
function uniqueId({ method, path }: Route, taken: Set<string>): string {
  const words = path.match(/\w+/g)?.map((word) => word.replace(/^_+/, '')) ?? [];
  const base = [method.toLowerCase(), ...words.slice(words[0] === 'svc' ? 1 : 0)].join('_');
  let id = path.endsWith('*') ? `${base}_path` : base;
  while (taken.has(id)) id += '_';
  taken.add(id);
  return id;
}
