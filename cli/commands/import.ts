/** `svc import`: apps of a git bundle, or of the folders in a folder. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { UploadAnswer } from '../../protocol/answers.ts';
import type { MintedWebhook } from '../../protocol/automation.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import type { CommandContext } from '../command.ts';
import { packFiles, readAppId, scanAppFolder } from '../dev/app-folder.ts';
import { CommandError, EXIT, errorBodyOf } from '../failure.ts';
import { drawMinted } from '../gateway/activation.ts';
import type { Client } from '../gateway/client.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { appPath } from '../gateway/paths.ts';

type Imported = {
  apps: { id: string; versionId: string }[];
  failed: { id: string; error: ErrorBody }[];
  webhooks: MintedWebhook[];
};

export async function run(context: CommandContext): Promise<number> {
  const { args, terminal, cwd, connect } = context;
  const source = resolve(cwd, args.at(0));
  if (!existsSync(source)) throw new CommandError(`There is no ${shortPath(source, context)}.`);
  const isFile = !statSync(source).isDirectory();
  if (isFile && !source.endsWith('.bundle'))
    throw new CommandError(`${shortPath(source, context)} is neither a folder nor a .bundle.`);
  const client = connect();
  const imported = isFile ? await ofBundle(client, source) : await ofFolders(client, source);
  terminal.answer(imported, () => {
    const { style } = terminal;
    for (const { id, versionId } of imported.apps)
      terminal.line(`${style('green', '✓')} ${style('bold', id)} ${versionId} is live`);
    for (const { id, error } of imported.failed)
      terminal.line(`${style('red', '✗')} ${style('bold', id)} ${error.code}: ${error.message}`);
    drawMinted(terminal, imported.webhooks);
  });
  return imported.failed.length === 0 ? EXIT.ok : EXIT.failed;
}

function ofBundle(client: Client, file: string): Promise<Imported> {
  return client.upload<Imported>('/svc/_code/import', readFileSync(file), () => {}, 'application/x-git-bundle');
}

/** One that is refused does not keep the others back. */
async function ofFolders(client: Client, source: string): Promise<Imported> {
  const folders = readdirSync(source).filter((name) => existsSync(join(source, name, 'app.json')));
  if (folders.length === 0)
    throw new CommandError('No folder in it has an app.json.', 'To push one app: svc push <dir>');
  const imported: Imported = { apps: [], failed: [], webhooks: [] };
  for (const name of folders.sort()) {
    const folder = join(source, name);
    try {
      const id = readAppId(folder);
      const archive = await packFiles(folder, scanAppFolder(folder).files);
      const answer = await client.upload<UploadAnswer>(appPath(id, '/upload'), archive, () => {});
      imported.apps.push({ id, versionId: answer.versionId });
      imported.webhooks.push(...answer.webhooks);
    } catch (error) {
      imported.failed.push({ id: name, error: errorBodyOf(error) });
    }
  }
  return imported;
}
