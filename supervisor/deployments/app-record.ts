/** What the registry's routes answer about an app and its versions (decisions, section 2). Pure. */
import type { AppRecord, VersionRecord } from '../../protocol/answers.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { AppState } from '../../storage/registry.ts';

export function appRecord({ id, registeredAt, updatedAt, active }: AppState, backend: AppRecord['backend']): AppRecord {
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
  };
}

export function versionRecord(summary: VersionSummary, active: VersionSummary | null): VersionRecord {
  const { versionId, sha256, version, uploadedAt, files, bytes } = summary;
  return { versionId, active: versionId === active?.versionId, sha256, version, uploadedAt, files, bytes };
}

/** Which versions to list: at most `limit`, those before the version `before`. */
export type VersionPage = { limit?: number; before?: string };
