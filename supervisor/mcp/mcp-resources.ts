/** Names queries and their inputs as resources of MCP: `svc://<app>/queries/<query>?input=<JSON>`, `{}` where there is no input. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { JsonSchema, Manifest } from '../../protocol/manifest.ts';
import { isTooDeep } from '../../protocol/rules/json-text.ts';

export type McpResource = {
  uri: string;
  name: string;
  description: string;
  mimeType: string;
  _meta?: Record<string, unknown>;
};

/** What a resource holds: text, or bytes in base64. */
export type McpContent = { mimeType: string; _meta?: Record<string, unknown> } & ({ text: string } | { blob: string });

/** As `resources/templates/list` shows it; `uriTemplate` as RFC 6570 has it. */
export type McpResourceTemplate = { uriTemplate: string; name: string; description: string; mimeType: string };

/** The resource that a URI names. `input` is JSON text as the client wrote it. */
export type QueryResource = { app: string; query: string; input: string };

const QUERY_URI = /^svc:\/\/([^/?#]+)\/queries\/([^/?#]+)(?:\?input=(.*))?$/s;

/** The template of one app's queries, or with null that of all apps'. */
export function queryTemplate(app: string | null): McpResourceTemplate {
  return {
    uriTemplate: `svc://${app ?? '{app}'}/queries/{query}{?input}`,
    name: 'query',
    description:
      'The result of a query; "input" is what it takes, as JSON. Subscribers hear whenever the result changes.',
    mimeType: 'application/json',
  };
}

/** The queries that can be read without an input. */
export function queryResources(app: string, { queries }: Pick<Manifest, 'queries'>): McpResource[] {
  return queries
    .filter(({ input }) => !demandsInput(input))
    .map(({ name, description }) => ({
      uri: `svc://${app}/queries/${encodeURIComponent(name)}`,
      name,
      description: description ?? `The result of the query "${name}" of "${app}".`,
      mimeType: 'application/json',
    }));
}

function demandsInput(schema: JsonSchema | undefined): boolean {
  if (typeof schema !== 'object') return schema === false;
  return Array.isArray(schema.required) && schema.required.length > 0;
}

/** Null for a URI that names no query. Throws `INVALID_INPUT` for one that is too long or whose input is no JSON. */
export function queryOfUri(uri: string): QueryResource | null {
  if (Buffer.byteLength(uri) > LIMITS.mcpUriBytes)
    throw new SvcError('INVALID_INPUT', `The URI of a resource has ${LIMITS.mcpUriBytes} bytes at most.`);
  const [, app, query, input = '%7B%7D'] = QUERY_URI.exec(uri) ?? [];
  if (app === undefined || query === undefined) return null;
  const text = decoded(input);
  if (isTooDeep(text)) throw new SvcError('INVALID_INPUT', '"input" in the URI nests too deep.');
  try {
    JSON.parse(text);
    return { app: decoded(app), query: decoded(query), input: text };
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('INVALID_INPUT', `"input" in the URI is not JSON: ${(error as Error).message}`);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SvcError('INVALID_INPUT', 'The URI has a percent sign that encodes nothing.');
  }
}
