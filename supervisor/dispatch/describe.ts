/** Answers `svc_describe`: lists apps and their tools (specification, "Descriptions of tools"). */
import { SvcError } from '../../protocol/errors.ts';
import { describedTool, openTool, pageUri } from '../../protocol/http/mcp-app.ts';
import type { Manifest, PageDocument, VersionSummary } from '../../protocol/manifest.ts';
import type { DescribedApp } from '../../protocol/routes/apps/tools-rows.ts';
import { noActiveVersion } from './apps.ts';
import { inTurns, KeptArray } from './kept-array.ts';
import type { Scope, Scopes } from './scope.ts';

/**
 * The `data` of the answer; without an app in `body` it lists `among`, by default every app. Rejects with the error to
 * answer.
 */
export async function describeApps(
  scopes: Scopes,
  body: Record<string, unknown>,
  among?: readonly string[],
): Promise<unknown> {
  for (const member of ['app', 'query', 'action']) {
    if (body[member] !== undefined && typeof body[member] !== 'string') {
      throw new SvcError('BAD_REQUEST', `"${member}" must be a string.`, { path: member });
    }
  }
  const { app: id, query, action } = body as { app?: string; query?: string; action?: string };
  if (query !== undefined && action !== undefined) {
    throw new SvcError('INVALID_INPUT', 'Ask for a query or for an action, not for both.', { path: '' });
  }
  if (id === undefined) {
    if (query !== undefined || action !== undefined) {
      throw new SvcError('BAD_REQUEST', 'Say which app: "app" must be a string.', { path: 'app' });
    }
    return { apps: await linesOf(scopes, among ?? (await scopes.ids())) };
  }
  const scope = scopes.of(id);
  const manifest = await manifestOf(scope);
  if (query === undefined && action === undefined) {
    const mcpApp = describedPage(id, (await scope.get()).active.page);
    return { ...manifest, app: id, ...(mcpApp && { mcpApp }) };
  }
  const kind = query === undefined ? 'action' : 'query';
  const name = query ?? action;
  const tool = describedTool(id, manifest, kind, name);
  if (!tool) {
    throw new SvcError(
      kind === 'query' ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION',
      `"${id}" has no ${kind} "${name?.slice(0, 80)}".`,
    );
  }
  return tool;
}

/** Where the page is in a host of MCP Apps, or why it is not; undefined for an app without one. */
function describedPage(app: string, page: PageDocument | undefined): object | undefined {
  if (page === undefined) return undefined;
  return 'faults' in page ? { faults: page.faults } : { resource: pageUri(app), tool: openTool(app) };
}

export async function manifestOf(scope: Scope): Promise<Manifest> {
  await scope.get();
  const { manifest } = await scope.code();
  if (!manifest) throw noActiveVersion(scope.app);
  return manifest;
}

/** The latest answers. */
const kept = new WeakMap<Scopes, KeptArray>();

/** The whole answer of a successful call that names no app, which lists every app. */
export async function describeAll(scopes: Scopes): Promise<Buffer> {
  const array = kept.get(scopes) ?? new KeptArray('{"isError":false,"data":{"apps":', '}}');
  kept.set(scopes, array);
  return array.bytesOf(await linesOf(scopes, await scopes.ids()));
}

function linesOf(scopes: Scopes, ids: readonly string[]): Promise<DescribedApp[]> {
  return inTurns(ids, (id) => {
    const fault = (error: unknown): DescribedApp => {
      if (!(error instanceof SvcError)) throw error;
      return { app: id, error: { code: error.code, message: error.message } };
    };
    try {
      const app = scopes.of(id).get();
      return app instanceof Promise ? app.then(({ active }) => lineOf(id, active), fault) : lineOf(id, app.active);
    } catch (error) {
      return fault(error);
    }
  });
}

const lines = new WeakMap<VersionSummary, DescribedApp>();

/** The same object for the same version of an app. */
function lineOf(app: string, active: VersionSummary): DescribedApp {
  let line = lines.get(active);
  if (line?.app !== app) {
    line = appLine(app, active);
    lines.set(active, line);
  }
  return line;
}

function appLine(app: string, { name, version, description, kind, queries, actions }: VersionSummary): DescribedApp {
  return {
    app,
    name,
    version,
    description,
    kind,
    queries: queries.map((tool) => ({ name: tool.name, description: tool.description })),
    actions: actions.map(({ name, description, confirmation }) => ({ name, description, confirmation })),
  };
}
