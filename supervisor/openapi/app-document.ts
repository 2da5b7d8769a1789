/**
 * Makes the OpenAPI document of an app: one operation per tool (specification, "OpenAPI documents"). All queries share one
 * address and all actions another, but OpenAPI identifies operations by path. So the tool's name follows a `#`, which clients
 * do not send.
 */
import type { ActionDefinition, JsonSchema, Manifest, QueryDefinition } from '../../protocol/manifest.ts';
import { COMPONENTS, ERROR_CONTENT, HEADER, type Json, SECURITY } from './shared.ts';

const KINDS = {
  query: { path: '/svc/_tool/svc_read', tag: 'Queries' },
  action: { path: '/svc/_tool/svc_write', tag: 'Actions' },
} as const;

type Kind = keyof typeof KINDS;
type Tool = QueryDefinition | ActionDefinition;

export function appDocument({
  id,
  name,
  version,
  description,
  queries,
  actions,
}: Manifest): Json & { openapi: string } {
  const schemas: Json = {};
  const paths: Json = {};
  const operationIdOf = (kind: Kind, tool: string): string => {
    const other = kind === 'query' ? actions : queries;
    return other.some((one) => one.name === tool) ? `${kind}.${tool}` : tool;
  };
  for (const [kind, tools] of Object.entries({ query: queries, action: actions }) as [Kind, Tool[]][]) {
    for (const tool of tools) {
      const operation = operationOf(id, kind, tool, operationIdOf(kind, tool.name), schemas);
      paths[`${KINDS[kind].path}#${tool.name}`] = { post: operation };
    }
  }
  return {
    ...HEADER,
    info: { title: name, version, ...(description === undefined ? {} : { description }) },
    tags: [{ name: 'Queries' }, { name: 'Actions' }],
    paths,
    components: { ...COMPONENTS, schemas: { ...COMPONENTS.schemas, ...schemas } },
  };
}

/** Puts the schemas of the tool into `schemas`. */
function operationOf(app: string, kind: Kind, tool: Tool, operationId: string, schemas: Json): Json {
  const put = (part: 'input' | 'output', schema: JsonSchema): Json => {
    const name = `${kind}.${tool.name}.${part}`;
    const pointer = `#/components/schemas/${name}`;
    schemas[name] = placed(schema, pointer);
    return { $ref: pointer };
  };
  const input = tool.input === undefined ? { type: 'object' } : put('input', tool.input);
  const output = tool.output === undefined ? {} : put('output', tool.output);
  const data =
    kind === 'query'
      ? output
      : {
          type: 'object',
          required: ['status', 'body'],
          properties: { status: { type: 'integer', description: 'That of the response, too.' }, body: output },
        };
  const needsConfirmation = 'confirmation' in tool && tool.confirmation === 'required';
  const answer = answerOf(data);
  return {
    operationId,
    tags: [KINDS[kind].tag],
    ...(tool.description === undefined ? {} : { description: tool.description }),
    ...(kind === 'action' ? { parameters: [IDEMPOTENCY_KEY] } : {}),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['app', kind],
            properties: { app: { const: app }, [kind]: { const: tool.name }, input },
            additionalProperties: false,
          },
        },
      },
    },
    responses: {
      200: { description: 'What it answered.', content: { 'application/json': { schema: answer } } },
      default: {
        description: kind === 'query' ? 'An error.' : 'An error; or what an action answered with another status.',
        content: kind === 'query' ? ERROR_CONTENT : { 'application/json': { schema: otherOf(answer) } },
      },
    },
    security: [...SECURITY, ...(tool.public === true ? [{}] : [])],
    ...(needsConfirmation ? { 'x-svc-confirmation': 'required' } : {}),
  };
}

const IDEMPOTENCY_KEY = {
  name: 'idempotency-key',
  in: 'header',
  description: 'The same key with the same input runs the action once within 24 hours.',
  schema: { type: 'string' },
};

function answerOf(data: Json): Json {
  return { type: 'object', required: ['isError', 'data'], properties: { isError: { const: false }, data } };
}

function otherOf(answer: Json): Json {
  return { oneOf: [{ $ref: '#/components/schemas/Error' }, answer] };
}

/** Keywords whose values are no schemas. */
const DATA = new Set(['const', 'enum', 'default', 'examples', 'example']);

/** A schema at its place in the document: references to its own parts are made relative to the document. */
function placed(schema: JsonSchema, pointer: string): JsonSchema {
  if (typeof schema === 'boolean') return schema;
  const { $schema, ...members } = schema;
  // A schema with an `$id` is the root of its references.
  if (typeof members.$id === 'string') return schema;
  return moved(members, pointer) as JsonSchema;
}

function moved(value: unknown, pointer: string): unknown {
  if (Array.isArray(value)) return value.map((one) => moved(one, pointer));
  if (typeof value !== 'object' || value === null) return value;
  if ('$id' in value && typeof value.$id === 'string') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (key === '$ref' && typeof inner === 'string' && /^#(?:\/|$)/.test(inner))
        return [key, pointer + inner.slice(1)];
      return [key, DATA.has(key) ? inner : moved(inner, pointer)];
    }),
  );
}
