/** Makes the files of a new app: a blank one with its words filled in, or the copy of a template under a new id. */
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { listTreeSync, pathOf } from '../files/list-tree.ts';
import { makeFolder } from '../files/make-folder.ts';

/** Folder for editors in an app's folder; its name keeps it out of uploads. */
export const SCHEMAS_FOLDER = '.schemas';
const SCHEMAS = ['app.schema.json', 'automation.schema.json'];

/** Copies the schemas that the manifests of an app name from the package's folder `from`; gives the paths written. */
export function writeSchemas(from: string, folder: string): string[] {
  makeFolder(join(folder, SCHEMAS_FOLDER), 0o777);
  for (const name of SCHEMAS) copyFileSync(join(from, name), join(folder, SCHEMAS_FOLDER, name));
  return SCHEMAS.map((name) => `${SCHEMAS_FOLDER}/${name}`);
}

/** Manifests of templates name the schemas of the package that has both: `../../schemas/…` becomes `./.schemas/…`. */
function nameOwnSchemas(text: string): string {
  return text.replace(
    /("\$schema":\s*")\.\.\/\.\.\/((?:\.\.\/)*)schemas\//,
    (_, before: string, up: string) => `${before}${up || './'}${SCHEMAS_FOLDER}/`,
  );
}

/** Writes the app into `folder`, which must be empty or missing, and gives the paths written. */
export function writeBlankApp(template: string, folder: string, id: string, name: string): string[] {
  const files = listTreeSync(template)
    .filter((entry) => entry.isFile())
    .map((entry) => pathOf(entry).slice(template.length + 1))
    .sort();
  for (const file of files) {
    const target = join(folder, file);
    makeFolder(dirname(target), 0o777);
    writeFileSync(target, fill(readFileSync(join(template, file), 'utf8'), file, id, name), { flag: 'wx' });
  }
  return files;
}

function fill(text: string, file: string, id: string, name: string): string {
  const shown = /\.js(?:on)?$/.test(file) ? JSON.stringify(name).slice(1, -1) : escapeHtml(name);
  return nameOwnSchemas(text)
    .replaceAll('__ID__', () => id)
    .replaceAll('__NAME__', () => shown);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/**
 * Replaces the template's id and name in `folder` by the app's: in the manifest, the title of its page, and its automations.
 * Without a name it keeps the template's; returns the name. Throws `INVALID_MANIFEST` for a template that is damaged.
 */
export function renameApp(folder: string, id: string, name: string | null): string {
  const path = join(folder, 'app.json');
  const manifest = readObject(path);
  const before = manifest.id;
  const shown = name ?? (typeof manifest.name === 'string' ? manifest.name : id);
  write(path, { ...manifest, id, name: shown });
  if (typeof manifest.name === 'string' && manifest.name !== shown)
    retitle(join(folder, 'index.html'), manifest.name, shown);
  if (typeof before !== 'string') return shown;
  for (const file of listTreeSync(folder).map((entry) => relative(folder, pathOf(entry)))) {
    if (!/^automations[\\/][^\\/]+[\\/]automation\.json$/.test(file)) continue;
    const automation = readObject(join(folder, file));
    if (Array.isArray(automation.apps))
      automation.apps = automation.apps.map((app: unknown) => (app === before ? id : app));
    if (typeof automation.onFailure === 'string' && automation.onFailure.startsWith(`${before}/`))
      automation.onFailure = `${id}/${automation.onFailure.slice(before.length + 1)}`;
    write(join(folder, file), automation);
  }
  return shown;
}

/** Title and headings that consist of the template's name. */
function retitle(page: string, before: string, shown: string): void {
  if (!existsSync(page)) return;
  const named = /(<(title|h1)\b[^<>]*>)([^<]*)(?=<\/\2>)/g;
  const html = readFileSync(page, 'utf8');
  const changed = html.replace(named, (whole, tag: string, _, text: string) =>
    text.trim() === escapeHtml(before) ? tag + escapeHtml(shown) : whole,
  );
  if (changed !== html) writeFileSync(page, changed);
}

function readObject(path: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Refused below, like JSON that is not an object.
  }
  throw new SvcError('INVALID_MANIFEST', 'The template is damaged: one of its manifests cannot be read.', {
    status: 500,
  });
}

function write(path: string, value: object): void {
  writeFileSync(path, nameOwnSchemas(`${JSON.stringify(value, null, 2)}\n`));
}
