/**
 * Reads what a data directory stores, for `svc doctor`: every database, the repository, and with `--deep` every stored file. It
 * changes none of it, and the gateway may run meanwhile.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { AppRecord } from '../../../protocol/answer-types.ts';
import { contentHash } from '../../../protocol/content-hash.ts';
import { draftKey, isAppId } from '../../../protocol/ids.ts';
import type { StaticEntry } from '../../../protocol/manifest.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { plural } from '../../../protocol/text/units.ts';
import { lostDataOf, lostPages, repairAdvice } from '../../../storage/apps/app-data.ts';
import { readStoreMark } from '../../../storage/apps/linked-code.ts';
import { readEntries } from '../../../storage/apps/registry.ts';
import { readVersion, storedVersions } from '../../../storage/apps/versions.ts';
import { quickCheck } from '../../../storage/backup/backup-database.ts';
import { isSha256 } from '../../../storage/blob-files.ts';
import { exists, namesIn, readJson } from '../../../storage/files/atomic-file.ts';
import { Refs } from '../../../storage/git/refs.ts';
import { type AppPaths, CodeStorePaths, Layout } from '../../../storage/layout.ts';
import { lostFrames } from '../../../storage/lost-frames.ts';
import { lockHolder } from '../../../storage/processes/data-lock.ts';
import { type Check, ok, problem } from './check-command.ts';

const PUSH_AGAIN = 'Push or publish the app again; a version that is not live can also be deleted: svc versions rm';
const ETAG_CHARS = 32;

/** `noticed` are apps of the running gateway that it found damaged. None without apps that ever ran in the directory. */
export async function checkStored(dataDirectory: string, deep: boolean, noticed: AppRecord[]): Promise<Check[]> {
  const layout = new Layout(dataDirectory);
  const entries = await readEntries(layout.registry).catch(() => null);
  const ids = entries === null ? (await namesIn(layout.appsDir).catch(() => [])).filter(isAppId) : [...entries.keys()];
  return [
    ...(await checkDatabases(layout, ids, noticed)),
    ...(await checkRepository(layout, ids)),
    ...(deep ? await checkFiles(layout, ids) : []),
  ];
}

/** SQLite's quick check of every database: the gateway's own, those of the apps, and those of drafts. */
async function checkDatabases(layout: Layout, ids: string[], noticed: AppRecord[]): Promise<Check[]> {
  // The gateway looked at the logs before it opened them; now they change.
  const isRunning = isHeld(layout.lock);
  const bad: Check[] = [];
  let read = 0;
  const check = async (file: string, shown: string, fix: string): Promise<void> => {
    // What has no bytes was not used yet.
    if (((await stat(file).catch(() => null))?.size ?? 0) === 0) return;
    read += 1;
    const says = saysOf(file);
    if (says !== 'ok') bad.push(problem('databases', `${shown}: ${says}`, fix));
  };
  for (const file of [layout.runtimeDb, layout.identityDb, layout.analyticsDb]) {
    const name = basename(file);
    const fix = `Stop the gateway and move ${name} with its -wal and -shm away to begin without it, or restore a backup: svc restore`;
    await check(file, name, fix);
  }
  for (const id of ids) {
    const app = layout.app(id);
    const shown = `apps/${id}/data.sqlite`;
    const lost = (await lostDataOf(app).catch(() => null)) ?? (isRunning ? null : await cutWords(app.data));
    if (lost === null) await check(app.data, shown, repairAdvice(id));
    else bad.push(problem('databases', `${shown} ${lost}`, repairAdvice(id)));
  }
  for (const workspace of await namesIn(join(layout.appsDir, '_drafts')).catch(() => [])) {
    for (const id of await namesIn(layout.drafts(workspace)).catch(() => [])) {
      const fix = `Let it copy the live data again, or close the workspace: svc workspaces rm ${workspace}`;
      await check(layout.app(draftKey(workspace, id)).data, `apps/_drafts/${workspace}/${id}/data.sqlite`, fix);
    }
  }
  // Such as a file that was replaced while it was open: what is there now may be whole.
  for (const { id, damage = '' } of noticed) {
    const isNamed = bad.some(({ finding }) => finding.startsWith(`apps/${id}/`));
    if (!isNamed) bad.push(problem('databases', damage, repairAdvice(id)));
  }
  if (bad.length > 0) return bad;
  return read === 0 ? [] : [ok('databases', `${plural(read, 'database')} checked by SQLite`)];
}

/** Also where it cannot be told. */
function isHeld(lock: string): boolean {
  try {
    return lockHolder(lock) !== null;
  } catch {
    return true;
  }
}

/** Why its log does not have all that was committed. To read the database would make SQLite forget that. */
async function cutWords(file: string): Promise<string | null> {
  const frames = await lostFrames(file).catch(() => 0);
  return frames === 0 ? null : lostPages(frames);
}

/** SQLite's own words, `ok` for a whole database. */
function saysOf(file: string): string {
  try {
    return quickCheck(file);
  } catch (error) {
    return `it cannot be read: ${(error as Error).message}`;
  }
}

/** The git store has the versions of apps, so its repository must be there. */
async function checkRepository(layout: Layout, ids: string[]): Promise<Check[]> {
  const mark = await readStoreMark(layout).catch(() => null);
  if (mark === null || ids.length === 0) return [];
  const { repository } = new CodeStorePaths(mark.root);
  if (hasRefs(repository)) return [];
  const fix = 'Put it back from a backup or a clone; live versions are served meanwhile, and nothing can be published';
  return [problem('code store', `the git repository ${repository} is missing, or has no branch and no tag`, fix)];
}

/** True where it cannot be told. */
function hasRefs(repository: string): boolean {
  try {
    return new Refs(repository).any();
  } catch {
    return true;
  }
}

/** The hashes of everything that was uploaded and of what was prepared of it. */
async function checkFiles(layout: Layout, ids: string[]): Promise<Check[]> {
  const bad: Check[] = [];
  let read = 0;
  for (const id of ids) {
    const app = layout.app(id);
    for (const versionId of await storedVersions(app)) {
      const found = await damagedFiles(app, versionId);
      read += found.read;
      for (const name of found.damaged)
        bad.push(problem('files', `apps/${id}/${name} is not what was stored`, PUSH_AGAIN));
    }
    for (const folder of [app.blobsDir, app.attachmentsDir]) {
      for (const name of (await namesIn(folder)).filter(isSha256)) {
        read += 1;
        if ((await hashOf(join(folder, name))) === name) continue;
        const fix = 'Put the file of a backup in its place, or delete it: svc files rm';
        bad.push(problem('files', `apps/${id}/${basename(folder)}/${name} does not have the content of its name`, fix));
      }
    }
  }
  return bad.length > 0 ? bad : [ok('files', `${plural(read, 'file')} of apps read, each as it was stored`)];
}

/** Files of a version that differ from their hashes, as paths in the app's folder. */
async function damagedFiles(app: AppPaths, versionId: string): Promise<{ read: number; damaged: string[] }> {
  const paths = app.version(versionId);
  const wanted = new Map<string, string>();
  const list = await readJson(paths.preparedList, null);
  if (isRecord(list))
    for (const [name, entry] of Object.entries(list))
      wanted.set(join(paths.prepared, name), String((entry as unknown[])[1]));
  const index = await readJson(paths.static, null);
  if (isRecord(index))
    for (const [name, { etag, prepared }] of Object.entries(index as Record<string, StaticEntry>))
      if (prepared !== true) wanted.set(join(paths.code, name), etag.slice(1, 1 + ETAG_CHARS));
  const summary = await readVersion(app, versionId);
  if (summary !== null) wanted.set(paths.manifest, summary.manifestSha256);
  const damaged: string[] = [];
  for (const [path, hash] of wanted)
    if (!(await hashOf(path))?.startsWith(hash)) damaged.push(path.slice(app.dir.length + 1));
  // The files of automations are rewritten when they are stored, so that of the whole says nothing where there are any.
  const isKept = summary !== null && summary.automations === 0 && !(await exists(paths.automationsDir));
  if (isKept && damaged.length === 0 && (await contentHashOf(paths.code)) !== summary.sha256)
    damaged.push(paths.code.slice(app.dir.length + 1));
  return { read: wanted.size, damaged };
}

/** In hex; null for what is no file. */
async function hashOf(path: string): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(path), hash);
    return hash.digest('hex');
  } catch {
    return null;
  }
}

/** As an upload's is made: of the sorted names and hashes of the files. */
async function contentHashOf(folder: string): Promise<string> {
  const names: string[] = [];
  const walk = async (prefix: string): Promise<void> => {
    for (const entry of await readdir(join(folder, prefix), { withFileTypes: true })) {
      if (entry.isDirectory()) await walk(`${prefix}${entry.name}/`);
      else if (entry.isFile()) names.push(prefix + entry.name);
    }
  };
  await walk('');
  const files: { path: string; sha256: string }[] = [];
  for (const path of names.sort()) files.push({ path, sha256: String(await hashOf(join(folder, path))) });
  return contentHash(files);
}
