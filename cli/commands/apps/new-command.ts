/** `svc new`: an app to start from, in a local folder or in a workspace of a gateway with the git store. */
import { cpSync, existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { idFromName, isAppId, nameFromId } from '../../../protocol/ids.ts';
import { ORIGIN_FILE } from '../../../protocol/rules/archive-rules.ts';
import { renameApp, writeBlankApp, writeSchemas } from '../../../storage/apps/app-template.ts';
import { packageRoot, templateFolder, templateIds } from '../../../supervisor/tree/entry-points.ts';
import type { CommandContext } from '../../command.ts';
import { scanAppFolder } from '../../dev/app-folder.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { findPages } from '../../gateway/page-links.ts';
import { didYouMean } from '../../terminal/nearest.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import { drawMinted } from './versions-command.ts';

export async function newApp(context: CommandContext): Promise<void> {
  const folder = context.args.optionalAt(0);
  if (folder === undefined) await onGateway(context);
  else await inFolder(context, resolve(context.cwd, folder));
}

async function inFolder(context: CommandContext, folder: string): Promise<void> {
  const { args, terminal } = context;
  const shown = shortPath(folder, context);
  const id = args.text('id') ?? idFromName(basename(folder));
  if (!isAppId(id))
    throw new UsageError(
      `Cannot make an app id from "${basename(folder)}".`,
      'Use letters and digits in the name of the folder, or give one with --id.',
    );
  if (existsSync(folder) && !statSync(folder).isDirectory())
    throw new CommandError(`${shown} is a file.`, 'Name a new folder.');
  for (const option of ['workspace', 'publish'])
    if (args.has(option)) throw new UsageError(`--${option} needs an app on the gateway; leave out the folder.`);
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CommandError(`${shown} is not empty.`, 'Name a new folder.');
  const name = args.text('name');
  const template = args.text('clone');
  if (template !== undefined && args.has('ts'))
    throw new UsageError('--ts makes a blank app; a template is JavaScript.', 'Leave out --ts or --clone.');
  const made =
    template === undefined
      ? writeBlankApp(templateFolder('_blank'), folder, id, name ?? nameFromId(id))
      : copyTemplate(template, folder, id, name);
  const own = args.has('ts') ? (await import('../../types/typed-app.ts')).typeBlankApp(folder, id, made) : made;
  const files = [...writeSchemas(join(packageRoot, 'schemas'), folder), ...own];
  terminal.answer({ id, folder, files }, () => {
    const { style } = terminal;
    terminal.done(`${style('bold', id)} is ready in ${shown}`);
    for (const file of files) terminal.line(style('dim', `  ${file}`));
    terminal.line();
    terminal.line(`Make it live:      ${style('cyan', `svc push ${shellPath(shown)}`)}`);
    terminal.line(`Work in a draft:   ${style('cyan', `svc dev ${shellPath(shown)}`)}`);
    terminal.line(`Run its tests:     ${style('cyan', `svc test ${shellPath(shown)}`)}`);
  });
}

/** Copies a template of this package; only a gateway fetches templates of a remote catalog. */
function copyTemplate(template: string, folder: string, id: string, name: string | undefined): string[] {
  const bundled = templateIds();
  if (!bundled.includes(template)) {
    throw new UsageError(`There is no template "${template}".`, [
      didYouMean(template, bundled, `Available: ${bundled.join(', ')}`),
      `For one of the gateway's catalog, leave out the folder: svc new --clone ${template}`,
    ]);
  }
  cpSync(templateFolder(template), folder, {
    recursive: true,
    filter: (path) => basename(path) !== ORIGIN_FILE,
  });
  renameApp(folder, id, name ?? null);
  return scanAppFolder(folder).files;
}

async function onGateway({ args, terminal, connect }: CommandContext): Promise<void> {
  const templateId = args.text('clone');
  const id = args.text('id');
  if (templateId === undefined && id === undefined)
    throw new UsageError('Name a folder, a template (--clone), or an id (--id) for an app on the gateway.');
  if (args.has('ts')) throw new UsageError('--ts makes a folder; name it.');
  const client = connect();
  const more = { name: args.text('name'), sessionId: args.text('workspace'), publish: args.has('publish') };
  const answer =
    templateId === undefined
      ? await client.call('POST /svc/_apps', { body: { id: id as string, ...more } })
      : await client.call('POST /svc/_apps/_clone', { body: { templateId, id, ...more } });
  const addressOf = await findPages(client);
  terminal.answer(answer, () => {
    const { style } = terminal;
    const { app, staged, tag = '' } = answer;
    const workspace = answer.sessionId ?? '';
    terminal.done(
      `${style('bold', app)} ${staged ? `is staged in workspace ${style('bold', workspace)}` : `${tag} is live`}`,
    );
    if (staged)
      terminal.facts({
        preview: style('cyan', addressOf({ app, workspace })),
        open: `svc open ${app} --workspace ${workspace}`,
        publish: `svc publish ${app} --workspace ${workspace}`,
      });
    else terminal.facts({ page: style('cyan', addressOf({ app })) });
    drawMinted(terminal, answer.webhooks);
  });
}
