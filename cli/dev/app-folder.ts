/** An app folder on this side: which of its files are sent, and the archive made of them. */
import { type Dirent, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { create } from 'tar';
import { LIMITS } from '../../protocol/limits.ts';
import { flatAutomation, flatAutomations } from '../../protocol/rules/automation-issues.ts';
import { STATIC_TYPES } from '../../protocol/rules/static-files.ts';
import { isMissing } from '../../storage/atomic-file.ts';
import { CommandError } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatBytes } from '../terminal/units.ts';
import { excerpt, jsonFault } from './source-excerpt.ts';

/** Names listed of what is left out. */
const LISTED = 6;

/** Extensions that an archive may hold (decisions, section 2). */
const PACKED_EXTENSIONS = new Set([...Object.keys(STATIC_TYPES), '.sql', '.md', '.txt']);
const LEFT_OUT_NAMES = new Set(['node_modules', '_registry.json']);

export type LeftOut = {
  path: string;
  reason: 'hidden' | 'link' | 'not a file' | 'database' | 'dependencies' | 'file type';
};
export type AppFolder = { files: string[]; bytes: number; leftOut: LeftOut[] };

/** The id in the folder's `app.json`; the gateway checks the rest. Throws `CommandError`. */
export function readAppId(folder: string): string {
  let text: string;
  try {
    text = readFileSync(join(folder, 'app.json'), 'utf8');
  } catch (error) {
    refuseFile(folder);
    if (!existsSync(folder))
      throw new CommandError(`The folder ${folder} does not exist.`, 'Make an app to start from: svc new <dir>');
    if (!isMissing(error)) throw error;
    throw new CommandError(
      'The folder has no app.json, so it is not an app.',
      'Make an app to start from: svc new <dir>',
    );
  }
  const fault = jsonFault(text);
  if (fault !== null) {
    const { reason, place } = fault;
    const where = place === null ? 'app.json' : `app.json:${place.line}:${place.column}`;
    throw new CommandError(
      `${where}: It is not valid JSON: ${reason}.`,
      place === null ? undefined : excerpt(text, place),
    );
  }
  const id = (JSON.parse(text) as { id?: unknown } | null)?.id;
  if (typeof id !== 'string' || id === '') throw new CommandError('app.json has no "id".');
  return id;
}

function refuseFile(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isFile())
    throw new CommandError(`${folder} is a file, not an app's folder.`, 'Name the folder that has the app.json.');
}

/** Lists what would be sent, by path. Throws `CommandError` when it is over the gateway's limit already. */
export function scanAppFolder(folder: string): AppFolder {
  refuseFile(folder);
  const found: AppFolder = { files: [], bytes: 0, leftOut: [] };
  scan(folder, '', found);
  if (found.bytes > LIMITS.archiveTotalBytes) {
    throw new CommandError(
      `The folder has ${formatBytes(found.bytes)} of files; an app may have ${formatBytes(LIMITS.archiveTotalBytes)}.`,
      `Its largest file is ${largest(folder, found.files)}.`,
    );
  }
  return found;
}

function scan(root: string, path: string, found: AppFolder): void {
  const entries = readdirSync(join(root, path), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const name = path === '' ? entry.name : `${path}/${entry.name}`;
    const reason = reasonToLeaveOut(entry);
    if (reason !== null) found.leftOut.push({ path: name, reason });
    else if (entry.isDirectory()) scan(root, name, found);
    else {
      const stat = statSync(join(root, name), { throwIfNoEntry: false });
      // It has gone since the folder was listed: editors write beside a file and rename.
      if (stat === undefined) continue;
      found.files.push(name);
      found.bytes += stat.size;
    }
  }
}

function reasonToLeaveOut(entry: Dirent): LeftOut['reason'] | null {
  const { name } = entry;
  if (name.startsWith('.')) return 'hidden';
  if (LEFT_OUT_NAMES.has(name)) return name === 'node_modules' ? 'dependencies' : 'database';
  if (name.startsWith('data.sqlite')) return 'database';
  if (entry.isSymbolicLink()) return 'link';
  if (entry.isDirectory()) return null;
  if (!entry.isFile()) return 'not a file';
  const dot = name.lastIndexOf('.');
  return PACKED_EXTENSIONS.has(name.slice(dot).toLowerCase()) ? null : 'file type';
}

function largest(folder: string, files: string[]): string {
  const sizes = files.map((file) => ({ file, bytes: statSync(join(folder, file)).size }));
  const { file, bytes } = sizes.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  return `${file} (${formatBytes(bytes)})`;
}

/** The files as a gzipped tar archive, without owners and times. */
export async function packFiles(folder: string, files: string[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const archive = create({ cwd: folder, gzip: true, portable: true, noMtime: true, noDirRecurse: true }, files);
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Warns of files that look like automations and are none; `paths` are the files of an app. */
export function warnOfFlatAutomations(terminal: Terminal, paths: string[]): void {
  for (const name of flatAutomations(paths))
    terminal.note(`${terminal.noteStyle('yellow', '!')} ${flatAutomation(name).message}`);
}

/** Files of a folder that are not sent, on one line. */
export function drawLeftOut(leftOut: LeftOut[]): string {
  const names = leftOut.slice(0, LISTED).map(({ path, reason }) => `${path} (${reason})`);
  const more = leftOut.length - names.length;
  return `Left out: ${names.join(', ')}${more > 0 ? `, and ${more} more` : ''}`;
}
