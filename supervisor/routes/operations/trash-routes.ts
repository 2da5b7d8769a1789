/** Lists, restores and deletes removed apps in the trash over HTTP (specification, "Removal and trash"). */
import type { TrashRow } from '../../../protocol/answer-types.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { deleteTrashed, listTrash, restoreApp } from '../../../protocol/routes/apps/trash-rows.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { parseTrashed, type Trashed, trashedBytes, listTrash as trashedIn } from '../../../storage/apps/trash.ts';
import { readCurrent } from '../../../storage/apps/versions.ts';
import { readJson } from '../../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../../storage/layout.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

export function trashRoutes({ audit, layout, config, deployments }: Services): Route[] {
  /** By id. What is in the trash does not change. */
  const sizes = new Map<string, number>();

  const rowOf = async (trashed: Trashed): Promise<TrashRow> => {
    const { id, app, removedAt } = trashed;
    const bytes = sizes.get(id) ?? (await trashedBytes(layout, id));
    sizes.set(id, bytes);
    const keptUntil = removedAt + config.trashDays * LIMITS.dayMs;
    return { id, app, ...(await namesOf(layout.trashed(id), app)), removedAt, keptUntil, bytes };
  };

  return [
    ...serve(listTrash, async ({ query: { limit = LIMITS.listRows, before = null } }) => {
      const all = await trashedIn(layout);
      for (const id of sizes.keys()) if (!all.some((trashed) => trashed.id === id)) sizes.delete(id);
      const rows: TrashRow[] = [];
      // It may have been removed since; the rest continues.
      for (const trashed of rowsAfter(all, before).slice(0, limit)) rows.push(await rowOf(trashed));
      return rows;
    }),
    ...serve(restoreApp, async ({ params: { id }, caller }) => {
      const restored = await deployments.restore(id);
      await audit.record(caller, 'app.restored', restored.id, { from: id });
      return restored;
    }),
    ...serve(deleteTrashed, async ({ params: { id }, caller }) => {
      const deleted = await deployments.removeTrashed(id);
      await audit.record(caller, 'app.deleted', id);
      return deleted;
    }),
  ];
}

/** `all` is newest first. One that is gone meanwhile still says where to go on. */
function rowsAfter(all: Trashed[], id: string | null): Trashed[] {
  const last = id === null ? null : parseTrashed(id);
  if (last === null) return all;
  return all.filter(
    ({ id: other, removedAt }) => removedAt < last.removedAt || (removedAt === last.removedAt && other > last.id),
  );
}

/** Of the version that was live, as in the record of an app. */
async function namesOf(paths: AppPaths, app: string): Promise<Pick<TrashRow, 'name' | 'version'>> {
  const current = await readCurrent(paths);
  const summary =
    current === null || current === 'damaged'
      ? null
      : await readJson(paths.version(current.activeVersion).summary, null);
  const { name = app, version = '' } = isRecord(summary) ? (summary as { name?: string; version?: string }) : {};
  return { name: String(name), version: String(version) };
}
