/** The files of a blank app: the template folder `templates/_blank` with two words to fill in. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Writes the app into `folder`, which must be empty or missing, and gives the paths written. */
export function writeBlankApp(template: string, folder: string, id: string, name: string): string[] {
  const files = readdirSync(template, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(template.length + 1))
    .sort();
  for (const file of files) {
    const target = join(folder, file);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, fill(readFileSync(join(template, file), 'utf8'), file, id, name), { flag: 'wx' });
  }
  return files;
}

function fill(text: string, file: string, id: string, name: string): string {
  const shown = /\.js(?:on)?$/.test(file) ? JSON.stringify(name).slice(1, -1) : escapeHtml(name);
  return text.replaceAll('__ID__', () => id).replaceAll('__NAME__', () => shown);
}

export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
