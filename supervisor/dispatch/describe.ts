/** `svc_describe`: what apps there are and what they can do (decisions, section 3). */
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Deployments } from '../deployments/deploy.ts';
import { type AppsView, noActiveVersion } from './apps.ts';
import { inTurns, KeptArray } from './kept-array.ts';

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
  registry: { ids(): readonly string[] | Promise<readonly string[]> };
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
    return { apps: await linesOf(services, among ?? (await services.registry.ids())) };
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

/** What the answers of several views were last. */
const kept = new WeakMap<Describing['apps'], KeptArray>();

/** The whole answer of a successful call that names no app, which lists every app. */
export async function describeAll({ apps, registry }: Omit<Describing, 'deployments'>): Promise<Buffer> {
  const array = kept.get(apps) ?? new KeptArray('{"isError":false,"data":{"apps":', '}}');
  kept.set(apps, array);
  return array.bytesOf(await linesOf({ apps }, await registry.ids()));
}

function linesOf({ apps }: Pick<Describing, 'apps'>, ids: readonly string[]): Promise<AppLine[]> {
  return inTurns(ids, (id) => {
    const fault = (error: unknown): AppLine => {
      if (!(error instanceof SvcError)) throw error;
      return { app: id, error: { code: error.code, message: error.message } };
    };
    try {
      const app = apps.get(id);
      return app instanceof Promise ? app.then(({ active }) => lineOf(id, active), fault) : lineOf(id, app.active);
    } catch (error) {
      return fault(error);
    }
  });
}

const lines = new WeakMap<VersionSummary, AppLine>();

/** The same object for the same version of an app. */
function lineOf(app: string, active: VersionSummary): AppLine {
  let line = lines.get(active);
  if (line?.app !== app) {
    line = appLine(app, active);
    lines.set(active, line);
  }
  return line;
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
