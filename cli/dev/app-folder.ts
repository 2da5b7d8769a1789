/** A local app folder: which of its files are sent, and their upload. */
import { createHash } from 'node:crypto';
import { type Dirent, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { constants } from 'node:zlib';
import { create, Header, Pack, ReadEntry } from 'tar';
import type { UploadAnswer } from '../../protocol/answer-types.ts';
import { flatAutomation, flatAutomations } from '../../protocol/automations/automation.ts';
import { contentHash } from '../../protocol/content-hash.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ORIGIN_FILE } from '../../protocol/rules/archive-rules.ts';
import { isStored, nameReason } from '../../protocol/rules/left-out.ts';
import { formatBytes } from '../../protocol/text/units.ts';
import { SCHEMAS_FOLDER } from '../../storage/apps/app-template.ts';
import { isMissing } from '../../storage/files/atomic-file.ts';
import { CommandError, reasonOf } from '../failure.ts';
import { type Client, ofFile } from '../gateway/client.ts';
import { nearest } from '../terminal/nearest.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { bundlePackages } from './packages.ts';
import { excerpt, jsonFault } from './source-check.ts';

/** Names listed of files that are left out. */
const LISTED = 6;

/** Mode of a file in an archive that was made of bytes. */
const NEW_FILE = 0o644;
const NEW_ONE = 'Make an app to start from: svc new <dir>';
/** Apps of a folder that an error names. */
const NAMED = 8;

type LeftOut = {
  path: string;
  reason: 'hidden' | 'link' | 'not a file' | 'database' | 'dependencies' | 'file type';
};
/** `state` differs whenever one of the files was written, renamed, made or removed, or packages were installed. */
type AppFolder = { files: string[]; bytes: number; leftOut: LeftOut[]; state: string };

/** The id in the folder's `app.json`; the gateway checks the rest. Throws `CommandError`. */
export function readAppId(folder: string): string {
  let text: string;
  try {
    text = readFileSync(join(folder, 'app.json'), 'utf8');
  } catch (error) {
    refuseFile(folder);
    if (!existsSync(folder)) {
      const meant = nearest(basename(folder), appsIn(dirname(folder)));
      throw new CommandError(
        `The folder ${folder} does not exist.`,
        meant === undefined ? NEW_ONE : `Did you mean ${join(dirname(folder), meant)}?`,
      );
    }
    if (!isMissing(error)) throw error;
    const inside = appsIn(folder);
    throw new CommandError(
      `${folder} has no app.json, so it is not an app.`,
      inside.length === 0 ? NEW_ONE : `Name an app in it: ${inside.slice(0, NAMED).join(', ')}`,
    );
  }
  const fault = jsonFault(text);
  if (fault !== null) {
    const { reason, place } = fault;
    const where = place === null ? 'app.json' : `app.json:${place.line}:${place.column}`;
    throw new CommandError(`${where}: It is not valid JSON: ${reason}.`, [
      ...(place === null ? [] : excerpt(text, place)),
      'Correct it there, then run the command again.',
    ]);
  }
  const id = (JSON.parse(text) as { id?: unknown } | null)?.id;
  if (typeof id !== 'string' || id === '')
    throw new CommandError('app.json has no "id".', 'Add one, such as: "id": "notes"');
  return id;
}

/** The folders in it that are apps. */
function appsIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => existsSync(join(folder, name, 'app.json')));
  } catch {
    return [];
  }
}

function refuseFile(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isFile())
    throw new CommandError(`${folder} is a file, not an app's folder.`, 'Name the folder that has the app.json.');
}

/**
 * Lists the files to send, by path. Throws `CommandError` when they exceed the gateway's limit, or when a folder cannot be read:
 * without it, its files would count as deleted.
 */
export function scanAppFolder(folder: string): AppFolder {
  refuseFile(folder);
  const found: AppFolder = { files: [], bytes: 0, leftOut: [], state: '' };
  scan(folder, '', found);
  if (found.bytes <= LIMITS.archiveTotalBytes) return found;
  const sizes = found.files.map((file) => ({ file, bytes: statSync(join(folder, file)).size }));
  const largest = sizes.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  throw new CommandError(
    `The folder has ${formatBytes(found.bytes)} of files; an app may have ${formatBytes(LIMITS.archiveTotalBytes)}.`,
    `Leave some out. The largest is ${largest.file} (${formatBytes(largest.bytes)}).`,
  );
}

function scan(root: string, path: string, found: AppFolder): void {
  const entries = readable(path, () => readdirSync(join(root, path), { withFileTypes: true })) ?? [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = path === '' ? entry.name : `${path}/${entry.name}`;
    // Ours: who pushes did not put them there.
    if (name === ORIGIN_FILE || name === SCHEMAS_FOLDER) continue;
    const reason = reasonToLeaveOut(entry);
    if (reason !== null) {
      found.leftOut.push({ path: name, reason });
      if (name === 'node_modules') found.state += stateOfPackages(join(root, name));
    } else if (entry.isDirectory()) scan(root, name, found);
    else {
      const stat = readable(path, () => statSync(join(root, name), { throwIfNoEntry: false }));
      // Editors write a temporary file and rename it: it vanished after the folder was listed.
      if (stat == null) continue;
      found.files.push(name);
      found.bytes += stat.size;
      found.state += `${name}\0${stat.mtimeMs}\0${stat.size}\0${stat.ino}\n`;
    }
  }
}

/** npm writes its hidden lock file with each installation, others make or remove folders. */
function stateOfPackages(folder: string): string {
  const paths = [folder, join(folder, '.package-lock.json')];
  return `${paths.map((path) => statSync(path, { throwIfNoEntry: false })?.ctimeMs).join(' ')}\n`;
}

/** Null for a subfolder that vanished after it was listed. `folder` is relative; the app's own is ''. */
function readable<T>(folder: string, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (isMissing(error) && folder !== '') return null;
    if (isMissing(error)) throw error;
    throw new CommandError(
      `${folder === '' ? 'The folder' : folder} cannot be read: ${reasonOf(error as NodeJS.ErrnoException)}.`,
      'Make it readable, or move it out. Until then nothing is sent, because its files would count as deleted.',
    );
  }
}

function reasonToLeaveOut(entry: Dirent): LeftOut['reason'] | null {
  const { name } = entry;
  const reason = nameReason(name);
  if (reason !== null) return reason;
  if (entry.isSymbolicLink()) return 'link';
  if (entry.isDirectory()) return null;
  if (!entry.isFile()) return 'not a file';
  return isStored(name) ? null : 'file type';
}

type UploadOptions = {
  /** Where to register it (default: the id in `app.json`), and the files to send (default: all that are not left out). */
  id?: string;
  files?: string[];
  activate?: boolean;
  /** The version that it may take the place of; null for any. */
  ifLive?: string | null;
  /** What is said of the version. */
  message?: string | undefined;
  onSent?(done: number, total: number): void;
};

/**
 * Uploads the folder with the packages that it imports as a new version, and makes it live unless `activate` is false.
 * Throws `INVALID_HANDLER` or `INVALID_PAGE` before anything is sent when a package cannot be bundled.
 */
export async function uploadApp(client: Client, folder: string, options: UploadOptions = {}): Promise<UploadAnswer> {
  const { id = readAppId(folder), files = scanAppFolder(folder).files } = options;
  return sendArchive(client, id, await packApp(folder, files), options);
}

/** Uploads an archive unchanged. */
export function sendArchive(
  client: Client,
  id: string,
  archive: Buffer,
  { activate = true, ifLive, message, onSent }: Omit<UploadOptions, 'id' | 'files'>,
): Promise<UploadAnswer> {
  const query = { activate: activate ? undefined : '0', ifLive: ifLive ?? undefined, message };
  const sent = { params: { id }, query, body: archive };
  const options = ofFile('application/gzip', (bytes) => onSent?.(bytes, archive.length));
  return client.call('POST /svc/_apps/:id/upload', sent, options);
}

/** The app as an archive: its files, and the packages that it imports. Throws `INVALID_HANDLER` or `INVALID_PAGE` when one cannot be bundled. */
export async function packApp(folder: string, files: string[] = scanAppFolder(folder).files): Promise<Buffer> {
  const bundles = await bundlePackages(folder, files);
  if (bundles.size === 0) return packFiles(folder, files);
  const own = files.filter((path) => !bundles.has(path));
  return packBytes([
    ...own.map((path) => ({ path, bytes: readFileSync(join(folder, path)) })),
    ...[...bundles].map(([path, bytes]) => ({ path, bytes })),
  ]);
}

/** The hash of what is sent, as the gateway makes it. */
export async function contentOf(folder: string, files: string[]): Promise<string> {
  const bundles = await bundlePackages(folder, files);
  const paths = [...new Set([...files, ...bundles.keys()])].sort();
  return contentHash(
    paths.map((path) => ({ path, sha256: sha256Of(bundles.get(path) ?? readFileSync(join(folder, path))) })),
  );
}

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The files as a gzipped tar archive, without owners and times. */
function packFiles(folder: string, files: string[]): Promise<Buffer> {
  return buffer(create({ cwd: folder, gzip: true, portable: true, noMtime: true, noDirRecurse: true }, files));
}

/** Files already in memory, as an archive like that of `packFiles`. */
export function packBytes(files: readonly { path: string; bytes: Buffer }[]): Promise<Buffer> {
  const pack = new Pack({ gzip: { level: constants.Z_BEST_SPEED }, portable: true, noMtime: true });
  for (const { path, bytes } of files) {
    const entry = new ReadEntry(new Header({ path, size: bytes.length, type: 'File', mode: NEW_FILE }));
    pack.add(entry);
    entry.end(bytes);
  }
  return buffer(pack.end());
}

/** Warns of files that look like automations but are none; `paths` are the files of an app. */
export function warnOfFlatAutomations(terminal: Terminal, paths: string[]): void {
  for (const name of flatAutomations(paths)) terminal.warn(flatAutomation(name).message);
}

/** The files that are left out, on one line. */
export function drawLeftOut(leftOut: LeftOut[]): string {
  const names = leftOut.slice(0, LISTED).map(({ path, reason }) => `${path} (${reason})`);
  const more = leftOut.length - names.length;
  return `Left out: ${names.join(', ')}${more > 0 ? `, and ${more} more` : ''}`;
}
