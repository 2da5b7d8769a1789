/** Names what the page of an app is to a host of MCP Apps (extension of 2026-01-26; specification, "MCP Apps"). Pure. */
import type { InputIssue } from '../errors.ts';
import type { Manifest } from '../manifest.ts';

/** By which clients and servers say that they know the extension. */
export const UI_EXTENSION = 'io.modelcontextprotocol/ui';
/** The exact type: hosts compare it as it stands. */
export const PAGE_TYPE = 'text/html;profile=mcp-app';
/** The version of the messages between page and host. */
export const UI_PROTOCOL = '2026-01-26';

/** The file whose document it is. */
export const PAGE_FILE = 'index.html';

/** What a page loads from elsewhere, of what keeps it from being one document: its policy lets a browser load nothing of it. */
export function blockedAddresses(page: object | undefined): InputIssue[] {
  const faults = page !== undefined && 'faults' in page ? (page.faults as InputIssue[]) : [];
  return faults
    .filter(({ keyword }) => keyword === 'origin')
    .map((fault) => ({ ...fault, message: `${fault.message} The policy of pages blocks it.` }));
}

/** The resource of an app's page. */
export function pageUri(app: string): string {
  return `ui://${app}/page`;
}

/** The tool that opens an app's page. */
export function openTool(app: string): string {
  return `open_${app}`;
}

/** The resource of a file of the app, which its page shows; `name` is the SHA-256 of its content in hex. */
export function fileUri(app: string, name: string): string {
  return `svc://${app}/_blobs/${name}`;
}

type Tools = { queries: readonly { name: string }[]; actions: readonly { name: string }[] };

/** The name of a query or an action as a tool of MCP: with its kind before it where both lists have the name. */
export function toolNameOf({ queries, actions }: Tools, kind: 'query' | 'action', name: string): string {
  const others = kind === 'query' ? actions : queries;
  return others.some((other) => other.name === name) ? `${kind}.${name}` : name;
}

/** What `svc_describe` answers with: the app, or the one tool of it that is asked for. Undefined when it has no such tool. */
export function describedTool(
  app: string,
  manifest: Manifest,
  kind: 'query' | 'action',
  name: string | undefined,
): object | undefined {
  const definition = (kind === 'query' ? manifest.queries : manifest.actions).find((tool) => tool.name === name);
  return definition && { app, name: manifest.name, version: manifest.version, [kind]: definition };
}
