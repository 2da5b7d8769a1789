/** Says what became of a deployment, in the shape of the registry's answers. */
import type { AppRecord, Replaced, UploadAnswer } from '../../protocol/answer-types.ts';
import { type NewWebhook, newWebhook } from '../../protocol/automations/automation.ts';
import type { InputIssue } from '../../protocol/errors.ts';
import { versionNumber } from '../../protocol/ids.ts';
import { publicParts, type RoleDefinition, type VersionSummary } from '../../protocol/manifest.ts';
import type { activateVersion } from '../../protocol/routes/apps/versions-rows.ts';
import type { publishWorkspace } from '../../protocol/routes/authoring/workspaces-rows.ts';
import type { AnswerOf } from '../../protocol/routes/row.ts';
import type { AppState } from '../../storage/apps/registry.ts';
import type { Publication } from './publication.ts';

/** `version` is n of the tag `<id>/v<n>`. `sha` holds what was merged: it is the new base of the workspace's files. */
export type PublishResult = AnswerOf<typeof publishWorkspace>;

/** `warnings`: what publishing would refuse its handlers for, an icon that cannot be drawn, and what is probably mistyped. */
export type AdoptionResult = { webhooks: NewWebhook[]; warnings?: InputIssue[] };

export type ActivationResult = AnswerOf<typeof activateVersion>;

/** The record of an app as the registry's routes answer it. */
export function recordOf({ id, registeredAt, updatedAt, active }: AppState, backend: AppRecord['backend']): AppRecord {
  return {
    id,
    name: active?.name ?? id,
    version: active?.version ?? '',
    ...(active?.description === undefined ? {} : { description: active.description }),
    kind: active?.kind ?? 'app',
    backend,
    status: active === null ? 'no_active_version' : 'active',
    activeVersion: active?.versionId ?? null,
    registeredAt,
    updatedAt,
    queries: active?.queries.length ?? 0,
    actions: active?.actions.length ?? 0,
    automations: active?.automations ?? 0,
    ...(active && publicOf(active)),
    ...(active?.roles && { roles: roleRows(active.roles) }),
    ...(active?.icon && { icon: true }),
  };
}

/** Without members that the manifest has beside. */
export function roleRows(roles: Readonly<Record<string, RoleDefinition>>) {
  return Object.entries(roles).map(([id, { name, description, queries, actions }]) => {
    return { id, name, ...(description !== undefined && { description }), queries, actions };
  });
}

export function uploaded(id: string, published: Publication, activate: boolean, origin: string): UploadAnswer {
  const { version, previous, isDuplicate, migrationsApplied, pruned } = published;
  const { versionId, sha256, files, bytes } = version;
  return {
    id,
    versionId,
    activeVersion: (activate ? version : previous)?.versionId ?? null,
    sha256,
    files,
    bytes,
    deduplicated: isDuplicate,
    ...replacedBy(published),
    migrationsApplied,
    pruned,
    ...present(version, ['network', 'uses', 'warnings']),
    ...publicOf(version),
    webhooks: webhooksOf(id, published, origin),
  };
}

/** `origin` is where the gateway is reached, for the addresses of webhooks. */
export function published(id: string, publication: Publication, origin: string): PublishResult {
  const { version, commit, migrationsApplied } = publication;
  return {
    id,
    version: versionNumber(id, version.versionId) as number,
    tag: version.versionId,
    sha: commit as string,
    migrationsApplied,
    ...present(version, ['network', 'uses', 'warnings']),
    ...publicOf(version),
    webhooks: webhooksOf(id, publication, origin),
  };
}

export function adopted(id: string, publication: Publication, origin: string): AdoptionResult {
  return { ...present(publication.version, ['warnings']), webhooks: webhooksOf(id, publication, origin) };
}

/** `done`: how many migrations the data has had. */
export function activated(id: string, publication: Publication, done: number, origin: string): ActivationResult {
  const { version, previous } = publication;
  const ahead = Math.max(0, done - version.migrations);
  return {
    id,
    activeVersion: version.versionId,
    previousVersion: previous?.versionId ?? null,
    migrationsAhead: Array.from({ length: ahead }, (_, at) => version.migrations + 1 + at),
    webhooks: webhooksOf(id, publication, origin),
  };
}

/** Only the members that the version has. */
function present<K extends keyof VersionSummary>(version: VersionSummary, members: K[]): Pick<VersionSummary, K> {
  const entries = members.flatMap((member) => (version[member] === undefined ? [] : [[member, version[member]]]));
  return Object.fromEntries(entries) as Pick<VersionSummary, K>;
}

function replacedBy({ replaced }: Publication): { replaced?: Replaced } {
  if (replaced === null) return {};
  const { versionId, uploadedAt, by } = replaced;
  return { replaced: { versionId, publishedAt: uploadedAt, ...(by !== undefined && { by }) } };
}

function publicOf(version: VersionSummary): { public?: string[] } {
  const parts = publicParts(version);
  return parts.length === 0 ? {} : { public: parts };
}

function webhooksOf(id: string, { minted }: Publication, origin: string): NewWebhook[] {
  return minted.map((secret) => newWebhook(id, secret, origin));
}
