/** Shows the queries and actions of one app as tools of MCP. */

import { toolNameOf } from '../../protocol/http/mcp-app.ts';
import type { ActionDefinition, JsonSchema, Manifest, QueryDefinition } from '../../protocol/manifest.ts';
import type { Target } from '../dispatch/dispatcher.ts';
import type { McpTool, ObjectSchema } from './definitions.ts';

/** One tool: `own` is its name in the manifest. */
export type Entry = { kind: Target['kind']; own: string; shown: McpTool; opensPage: boolean };
type Table = { tools: Entry[]; byName: Map<string, Entry> };

/** A manifest is read once and kept, so that its tools are made once for each version. */
const tables = new WeakMap<Manifest, Table>();

/** Every tool of a version, queries first, in the order of the manifest. */
export function tableOf(manifest: Manifest): Table {
  const known = tables.get(manifest);
  if (known) return known;
  const { queries, actions } = manifest;
  const entry = (kind: Target['kind'], definition: QueryDefinition | ActionDefinition): Entry => ({
    kind,
    own: definition.name,
    shown: toolOf(kind, definition, toolNameOf(manifest, kind, definition.name)),
    opensPage: definition.opensPage === true,
  });
  const tools = [...queries.map((one) => entry('query', one)), ...actions.map((one) => entry('action', one))];
  const table = { tools, byName: new Map(tools.map((one) => [one.shown.name, one])) };
  tables.set(manifest, table);
  return table;
}

function toolOf(kind: Target['kind'], definition: QueryDefinition | ActionDefinition, name: string): McpTool {
  const { description, input, output } = definition;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    inputSchema: withoutHeaders(asObjectSchema(input)),
    ...(isObjectSchema(output) ? { outputSchema: output } : {}),
    annotations:
      kind === 'query'
        ? { readOnlyHint: true }
        : { readOnlyHint: false, destructiveHint: definition.confirmation === 'required' },
  };
}

function isObjectSchema(schema: JsonSchema | undefined): schema is ObjectSchema {
  return typeof schema === 'object' && schema.type === 'object';
}

/** MCP requires an object at the top, which arguments always are. */
function asObjectSchema(schema: JsonSchema | undefined): ObjectSchema {
  if (schema === false) return { type: 'object', not: {} };
  return { ...(typeof schema === 'object' ? schema : {}), type: 'object' };
}

/** Nothing here goes by the header in which clients would repeat an argument with this keyword, and would have to check it. */
function withoutHeaders(schema: ObjectSchema): ObjectSchema {
  const text = JSON.stringify(schema);
  if (!text.includes('"x-mcp-header"')) return schema;
  const isKeyword = (key: string, value: unknown) => key === 'x-mcp-header' && typeof value === 'string';
  return JSON.parse(text, (key, value) => (isKeyword(key, value) ? undefined : value));
}
