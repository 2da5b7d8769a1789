/** Checks a session's files of an app as their publication would, and stores nothing. */
import { mkdir, rm } from 'node:fs/promises';
import { type PublicationOptions, type SessionCopy, stagingFolder } from './publication.ts';

/** Rejects as the publication would for its files, but never with `NO_CHANGES`. */
export async function reviewFiles(
  { registry, layout, store, jobs, now }: PublicationOptions,
  id: string,
  { folder, base }: Pick<SessionCopy, 'folder' | 'base'>,
): Promise<void> {
  const active = registry.has(id) ? (await registry.state(id)).active : null;
  const live = active === null ? null : layout.app(id).version(active.versionId);
  const staging = stagingFolder(layout);
  try {
    await mkdir(staging, { mode: 0o700 });
    await jobs.review({
      source: { session: folder, base, anew: true },
      commit: store.commitOrder(null),
      app: id,
      staging,
      uploadedAt: now(),
      known: [],
      active: live && { code: live.code, prepared: live.prepared },
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}
