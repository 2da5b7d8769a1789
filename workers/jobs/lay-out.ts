/** Writes the files of a new app into a folder: a blank app, or a template with a new id and name. */
import { copyFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ORIGIN_FILE } from '../../protocol/rules/archive-rules.ts';
import type { LayOutJob, LayOutResult } from '../../protocol/wire/jobs.ts';
import { renameApp, writeBlankApp } from '../../storage/apps/app-template.ts';
import { syncTree } from '../../storage/files/atomic-file.ts';
import { listTreeSync, pathOf } from '../../storage/files/list-tree.ts';
import { closeToOthers, openToOthers } from '../../storage/files/private-tree.ts';
import { extractArchive } from './content/archive.ts';
import { makeFolder } from './content/files.ts';

export async function layOut(job: LayOutJob): Promise<LayOutResult> {
  const name = await write(job);
  // Resets the modes of a template's files, which come from the installation.
  for (const path of openToOthers(job.to)) closeToOthers(path);
  await syncTree(job.to);
  const files = listTreeSync(job.to).filter((entry) => entry.isFile()).length;
  return { name, files };
}

/** Returns the name that people see. */
async function write({ source, to, id, name }: LayOutJob): Promise<string> {
  if ('blank' in source) {
    writeBlankApp(source.blank, to, id, name ?? id);
    return name ?? id;
  }
  if ('template' in source) copyFiles(source.template, to);
  else await extractArchive(source.archive, to);
  return renameApp(to, id, name);
}

/** `cpSync` checks every folder above the two, which this process may not read. */
function copyFiles(from: string, to: string): void {
  for (const entry of listTreeSync(from)) {
    if (!entry.isFile() || entry.name === ORIGIN_FILE) continue;
    const path = pathOf(entry);
    const copy = join(to, path.slice(from.length));
    makeFolder(dirname(copy));
    copyFileSync(path, copy);
  }
}
