/** The files of a new app: a template folder with two words to fill in. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Beside this file in the sources, and beside the bundle in `dist/`. */
const TEMPLATE = fileURLToPath(new URL('scaffold/', import.meta.url));

/** Writes the app into `folder`, which must be empty or missing, and gives the paths written. */
export function writeScaffold(folder: string, id: string, name: string): string[] {
  const files = readdirSync(TEMPLATE, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(TEMPLATE.length))
    .sort();
  for (const file of files) {
    const target = join(folder, file);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, fill(readFileSync(join(TEMPLATE, file), 'utf8'), file, id, name), { flag: 'wx' });
  }
  return files;
}

function fill(text: string, file: string, id: string, name: string): string {
  const shown = file.endsWith('.json') ? JSON.stringify(name).slice(1, -1) : escapeHtml(name);
  return text.replaceAll('__ID__', () => id).replaceAll('__NAME__', () => shown);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** An app id made from a folder's name: `My Notes` → `my-notes`. Empty when nothing of the name can stay. */
export function idFromName(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^[-_]+|-+$/g, '')
    .slice(0, 63);
}

/** `my-notes` → `My notes`. */
export function nameFromId(id: string): string {
  const words = id.replace(/[-_]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
