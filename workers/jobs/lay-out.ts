/** Writes the files of an app into a folder: a blank app, a template, an archive that was sent, or a version of another app. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import type { LayOutJob, LayOutResult } from '../../protocol/wire/jobs.ts';
import { renameApp, writeBlankApp } from '../../storage/apps/app-template.ts';
import { readUploaded } from '../../storage/automations/automation-files.ts';
import { namesInSync, syncTree } from '../../storage/files/atomic-file.ts';
import { listTreeSync } from '../../storage/files/list-tree.ts';
import { closeToOthers, openToOthers } from '../../storage/files/private-tree.ts';
import { VersionPaths } from '../../storage/layout.ts';
import { extractArchive } from './content/archive.ts';
import { copyFiles } from './content/files.ts';

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
  else if ('archive' in source) await extractArchive(source.archive, to);
  else if ('sent' in source) return await writeSent(source.sent, to, id, name);
  else await copyVersion(new VersionPaths(source.version.code, source.version.prepared), to, source.asNew);
  return renameApp(to, id, name);
}

/** Many archives have everything in one folder, and what only editors need: neither is a fault. */
async function writeSent(archive: string, to: string, id: string, name: string | null): Promise<string> {
  await extractArchive(archive, to, { leaveOut: true });
  const [only, more] = readdirSync(to);
  if (only !== undefined && more === undefined && existsSync(join(to, only, 'app.json'))) {
    const aside = `${to}.unwrapped`;
    renameSync(join(to, only), aside);
    rmSync(to, { recursive: true });
    renameSync(aside, to);
  }
  if (!existsSync(join(to, 'app.json')))
    throw new SvcError('INVALID_MANIFEST', 'The archive has no app.json at its top, so it is no app.', {
      path: 'app.json',
    });
  try {
    return renameApp(to, id, name);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new SvcError('INVALID_MANIFEST', 'A manifest of the app in the archive is not a JSON object.', {
      cause: error,
    });
  }
}

/** The gateway wrote switches and addresses into the automations of a stored version: those are not the author's. */
async function copyVersion(version: VersionPaths, to: string, asNew: boolean): Promise<void> {
  copyFiles(version.code, to);
  const uploaded = await readUploaded(version);
  const { automationsDir } = new VersionPaths(to, '');
  for (const id of namesInSync(automationsDir)) {
    const path = join(automationsDir, id, 'automation.json');
    if (!existsSync(path)) continue;
    const automation = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    if (asNew) {
      automation.enabled = false;
      automation.triggers = Array.isArray(automation.triggers) ? automation.triggers.map(withoutAddress) : [];
    } else automation.enabled = uploaded.get(id)?.enabled ?? automation.enabled;
    writeFileSync(path, `${JSON.stringify(automation, null, 2)}\n`);
  }
}

function withoutAddress(trigger: Record<string, unknown>): Record<string, unknown> {
  const { id: _, secretHash: __, ...rest } = trigger;
  return trigger.kind === 'webhook' ? { ...rest, pending: true } : trigger;
}
