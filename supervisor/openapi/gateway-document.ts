/** Makes the OpenAPI document of the gateway from the rows of its routes (specification, "OpenAPI documents"). */
import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts';
import { PARAMETERS } from '../../protocol/routes/pieces.ts';
import { errorCodesOf } from '../../protocol/routes/refusals.ts';
import { RESOURCES } from '../../protocol/routes/resources.ts';
import { type Method, pathsOf, type RouteRow } from '../../protocol/routes/row.ts';
import type { Schema } from '../../protocol/shapes/schema.ts';
import { COMPONENTS, ERROR_CONTENT, HEADER, type Json, SECURITY } from './shared.ts';

export function gatewayDocument(version: string): Json {
  const operationIds = new Set<string>();
  const paths: Record<string, Json> = {};
  for (const { name, rows } of RESOURCES)
    for (const row of rows)
      for (const path of pathsOf(row)) {
        const template = templateOf(path);
        paths[template] ??= {};
        const id = uniqueId(row.method, path, operationIds);
        (paths[template] as Json)[row.method.toLowerCase()] = operation(row, path, name, id);
      }
  const description =
    'An application gateway. Times are milliseconds since the epoch, sizes bytes; an empty body counts as `{}`.';
  return {
    ...HEADER,
    info: { title: 'svc gateway', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    tags: RESOURCES.map(({ name }) => ({ name })),
    paths,
    components: COMPONENTS,
  };
}

/** `/svc/:id/*` → `/svc/{id}/{path}`. */
export function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{path}');
}

function operation(row: RouteRow, path: string, resource: string, operationId: string): Json {
  const { answer, body, drafts, needs } = row;
  const isOpen = needs === 'anyone';
  const isDraft = path !== row.path;
  const differs = isDraft && typeof drafts === 'string' ? drafts : '';
  const parameters = parametersOf(row, path);
  return {
    operationId,
    tags: [resource],
    summary: row.title,
    description: [row.does, answer.says, differs].filter(Boolean).join(' '),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: sent(body) }),
    responses: {
      ...answered(row),
      ...failures(errorCodesOf(row, path)),
      default: { $ref: '#/components/responses/Error' },
    },
    security: isOpen ? [] : [...SECURITY, ...(isDraft || row.visitors === undefined ? [] : [{}])],
    'x-svc-needs': typeof needs === 'string' ? needs : needs.right,
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

function pathParameter(name: string, description: string): Json {
  return {
    name,
    in: 'path',
    required: true,
    description,
    schema: { type: 'string' },
  };
}

/** One response for each status, with the codes that it may have. */
function failures(codes: ErrorCode[]): Json {
  const byStatus = new Map<number, string[]>();
  for (const code of codes) {
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
function uniqueId(method: Method, path: string, taken: Set<string>): string {
  const words = path.match(/\w+/g)?.map((word) => word.replace(/^_+/, '')) ?? [];
  const base = [method.toLowerCase(), ...words.slice(words[0] === 'svc' ? 1 : 0)].join('_');
  let id = path.endsWith('*') ? `${base}_path` : base;
  while (taken.has(id)) id += '_';
  taken.add(id);
  return id;
}
