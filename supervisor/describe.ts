/** `svc_describe`: what apps there are and what they can do (decisions, section 3). */
import { type ErrorBody, SvcError } from '../protocol/errors.ts';
import type { VersionSummary } from '../protocol/manifest.ts';
import { type AppsView, noActiveVersion } from './apps.ts';
import type { Deployments } from './deploy.ts';

type ToolLine = { name: string; description?: string };
type AppLine =
  | {
      app: string;
      name: string;
      version: string;
      description?: string;
      kind: string;
      queries: ToolLine[];
      actions: (ToolLine & { confirmation?: string })[];
    }
  | { app: string; error: ErrorBody };

/** The parts of the gateway that know. */
export type Describing = {
  apps: Pick<AppsView, 'get'>;
  deployments: Pick<Deployments, 'manifest'>;
  registry: { ids(): string[] | Promise<string[]> };
};

/**
 * The `data` of the answer; without an app in `body` it lists `among`, by default every app. Rejects with the error to
 * answer.
 */
export async function describe(
  services: Describing,
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
    return { apps: await Promise.all((among ?? (await services.registry.ids())).map((app) => line(services, app))) };
  }
  await services.apps.get(id);
  const manifest = await services.deployments.manifest(id);
  if (!manifest) throw noActiveVersion(id);
  if (query === undefined && action === undefined) return { ...manifest, app: id };
  const kind = query === undefined ? 'action' : 'query';
  const name = query ?? action;
  const definition = (kind === 'query' ? manifest.queries : manifest.actions).find((tool) => tool.name === name);
  if (!definition) {
    throw new SvcError(
      kind === 'query' ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION',
      `"${id}" has no ${kind} "${name?.slice(0, 80)}".`,
    );
  }
  return { app: id, name: manifest.name, version: manifest.version, [kind]: definition };
}

async function line(services: Describing, id: string): Promise<AppLine> {
  try {
    const { active } = await services.apps.get(id);
    return appLine(id, active);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { app: id, error: { code: error.code, message: error.message } };
  }
}

function appLine(app: string, active: VersionSummary): AppLine {
  return {
    app,
    name: active.name,
    version: active.version,
    ...(active.description === undefined ? {} : { description: active.description }),
    kind: active.kind,
    queries: active.queries.map(({ name, description }) => ({
      name,
      ...(description === undefined ? {} : { description }),
    })),
    actions: active.actions.map(({ name, description, confirmation }) => ({
      name,
      ...(description === undefined ? {} : { description }),
      ...(confirmation === undefined ? {} : { confirmation }),
    })),
  };
}
