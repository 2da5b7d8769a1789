/** `svc export` and `svc import`: the code of all apps, as a git bundle or as plain folders. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { requestOf } from '../../../protocol/http/client.ts';
import type { Received } from '../../../protocol/routes/api.ts';
import { formatBytes, plural } from '../../../protocol/text/units.ts';
import { temporaryBeside } from '../../../storage/files/atomic-file.ts';
import { type CommandContext, interruptible } from '../../command.ts';
import { uploadApp } from '../../dev/app-folder.ts';
import { fillFolder } from '../../dev/fill-folder.ts';
import { CommandError, EXIT, errorBodyOf } from '../../failure.ts';
import { type Client, ofFile } from '../../gateway/client.ts';
import { checkContent, listedFiles, ReceivedFiles, receivedApp } from '../../gateway/received.ts';
import { readAll } from '../../resource.ts';
import { APPS } from '../../resources.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import { drawMinted, drawWarnings } from './versions-command.ts';

const EXPORTED = 'Name a file or folder that "svc export" wrote, or a folder with one folder for each app.';

export async function exportCode(context: CommandContext): Promise<void> {
  const { args, terminal, cwd, connect } = context;
  const { style } = terminal;
  const target = resolve(cwd, args.at(0));
  const shown = shortPath(target, context);
  const client = connect();
  if (target.endsWith('.bundle')) {
    if (existsSync(target)) throw new CommandError(`${shown} already exists.`, 'Name another file, or move it away.');
    await saveBundle(client, target);
    const bytes = statSync(target).size;
    terminal.answer({ file: target, bytes }, () => {
      terminal.done(`${style('bold', shown)} is written, ${formatBytes(bytes)}`);
      terminal.line(style('dim', `  git clone ${shellPath(shown)}  shows what is in it`));
    });
    return;
  }
  if (existsSync(target) && !statSync(target).isDirectory())
    throw new CommandError(`${shown} is a file.`, 'Name a new folder, or a file that ends in .bundle.');
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new CommandError(`${shown} is not empty.`, 'Name a new folder.');
  const records = await readAll(client, APPS);
  const apps = records.filter(({ activeVersion }) => activeVersion !== null).map(({ id }) => receivedApp(id));
  const skipped = records.filter(({ activeVersion }) => activeVersion === null).map(({ id }) => id);
  await interruptible((signal) => fillFolder(target, (folder) => readApps(client, apps, folder, signal)));
  terminal.answer({ folder: target, apps, skipped }, () => {
    const names = apps.length === 0 ? '' : `: ${apps.join(', ')}`;
    terminal.done(`${plural(apps.length, 'app')} in ${style('bold', shown)}${names}`);
    if (skipped.length > 0)
      terminal.line(style('yellow', `  left out, because no version is live: ${skipped.join(', ')}`));
  });
}

/** The file gets its name when it is complete. */
async function saveBundle(client: Client, target: string): Promise<void> {
  const file = temporaryBeside(target);
  await interruptible(async (signal) => {
    try {
      await client.download(requestOf('POST /svc/_code/export'), file, signal);
      renameSync(file, target);
    } finally {
      rmSync(file, { force: true });
    }
  });
}

/** Reads the published files through a workspace, which it closes again. */
async function readApps(client: Client, apps: string[], folder: string, signal: AbortSignal): Promise<void> {
  const { sessionId } = await client.call('POST /svc/_sessions', { body: {} });
  try {
    for (const app of apps) {
      const params = { sid: sessionId, id: app };
      const listed = await client.call('GET /svc/_sessions/:sid/apps/:id/files', { params }, { signal });
      const names = new ReceivedFiles(join(folder, app));
      for (const { path, sha } of listedFiles(listed)) {
        const file = names.place(path);
        const sent = { params: { ...params, '*': path } };
        const bytes = await client.bytesOf(requestOf('GET /svc/_sessions/:sid/apps/:id/files/*', sent, { signal }));
        checkContent(path, bytes, sha);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, bytes, { flag: 'wx' });
      }
    }
  } finally {
    await client.call('DELETE /svc/_sessions/:sid', { params: { sid: sessionId } });
  }
}

/** `main` is missing where no bundle was sent. */
type Imported = Omit<Received<'POST /svc/_code/import'>, 'main'>;

export async function importCode(context: CommandContext): Promise<number> {
  const { args, terminal, cwd, connect } = context;
  const source = resolve(cwd, args.at(0));
  const shown = shortPath(source, context);
  if (!existsSync(source)) throw new CommandError(`There is no ${shown}.`, EXPORTED);
  const isFile = !statSync(source).isDirectory();
  if (isFile && !source.endsWith('.bundle'))
    throw new CommandError(`${shown} is neither a folder nor a .bundle.`, EXPORTED);
  const client = connect();
  const imported = isFile ? await importBundle(client, source) : await importFolders(client, source);
  terminal.answer(imported, () => {
    const { style } = terminal;
    for (const { id, versionId, warnings } of imported.apps) {
      terminal.done(`${style('bold', id)} ${versionId} is live`);
      drawWarnings(terminal, warnings);
    }
    for (const { id, error } of imported.failed)
      terminal.line(`${style('red', '✗')} ${style('bold', id)} ${error.code}: ${error.message}`);
    drawMinted(terminal, imported.webhooks);
  });
  return imported.failed.length === 0 ? EXIT.ok : EXIT.failed;
}

function importBundle(client: Client, file: string): Promise<Imported> {
  return client.call('POST /svc/_code/import', { body: readFileSync(file) }, ofFile('application/x-git-bundle'));
}

/** An app that is refused does not stop the others. */
async function importFolders(client: Client, source: string): Promise<Imported> {
  const folders = readdirSync(source).filter((name) => existsSync(join(source, name, 'app.json')));
  if (folders.length === 0)
    throw new CommandError('No folder in it has an app.json.', 'To push one app: svc push <dir>');
  const imported: Imported = { apps: [], failed: [], webhooks: [] };
  for (const name of folders.sort()) {
    try {
      const { id, versionId, warnings, webhooks } = await uploadApp(client, join(source, name));
      imported.apps.push({ id, versionId, ...(warnings && { warnings }) });
      imported.webhooks.push(...webhooks);
    } catch (error) {
      imported.failed.push({ id: name, error: errorBodyOf(error) });
    }
  }
  return imported;
}
