/** Puts the files of a new app into a folder: a blank one, or a template that gets an id and a name of its own. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import type { LayOutJob, LayOutResult } from '../../protocol/templates.ts';
import { writeBlankApp } from '../../storage/blank-app.ts';
import { syncTree } from '../../storage/sync-tree.ts';
import { extractArchive } from './extract.ts';

export async function layOut({ source, to, id, name }: LayOutJob): Promise<LayOutResult> {
  if ('blank' in source) writeBlankApp(source.blank, to, id, name ?? id);
  else {
    if ('template' in source) cpSync(source.template, to, { recursive: true });
    else await extractArchive(source.archive, to);
    rename(to, id, name);
  }
  syncTree(to);
  const files = readdirSync(to, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
  return { name: readObject(join(to, 'app.json')).name as string, files };
}

/** What a template says of itself becomes true of the app: its id and name, and what its automations call it. */
function rename(folder: string, id: string, name: string | null): void {
  const path = join(folder, 'app.json');
  const manifest = readObject(path);
  const before = manifest.id;
  write(path, { ...manifest, id, name: name ?? (typeof manifest.name === 'string' ? manifest.name : id) });
  if (before === id || typeof before !== 'string') return;
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/^automations[\\/][^\\/]+[\\/]automation\.json$/.test(file)) continue;
    const automation = readObject(join(folder, file));
    if (Array.isArray(automation.apps))
      automation.apps = automation.apps.map((app: unknown) => (app === before ? id : app));
    if (typeof automation.onFailure === 'string' && automation.onFailure.startsWith(`${before}/`))
      automation.onFailure = `${id}/${automation.onFailure.slice(before.length + 1)}`;
    write(join(folder, file), automation);
  }
}

function readObject(path: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Answered below, like what is JSON and no object.
  }
  throw new SvcError('INVALID_MANIFEST', 'The template is damaged: one of its manifests cannot be read.', {
    status: 500,
  });
}

function write(path: string, value: object): void {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}
