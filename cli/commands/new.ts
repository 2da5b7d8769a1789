/** `svc new`: an app to start from, in a folder here or in a session of a gateway with the git store. */
import { cpSync, existsSync, readdirSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { idFromName, nameFromId } from '../../protocol/app-names.ts';
import { isAppId } from '../../protocol/ids.ts';
import { writeBlankApp } from '../../storage/blank-app.ts';
import { renameApp } from '../../storage/rename-app.ts';
import { templateFolder } from '../../supervisor/tree/entry-points.ts';
import type { CommandContext } from '../command.ts';
import { scanAppFolder } from '../dev/app-folder.ts';
import { CommandError, UsageError } from '../failure.ts';
import { drawMinted } from '../gateway/activation.ts';
import type { StagedAnswer } from '../gateway/api.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { type AddressOf, findPages } from '../gateway/pages.ts';
import { appPath } from '../gateway/paths.ts';
import { nearest } from '../terminal/nearest.ts';
import { shellPath } from '../terminal/shell.ts';
import type { Terminal } from '../terminal/terminal.ts';

export async function run(context: CommandContext): Promise<void> {
  const folder = context.args.optionalAt(0);
  if (folder === undefined) await onGateway(context);
  else inFolder(context, resolve(context.cwd, folder));
}

function inFolder(context: CommandContext, folder: string): void {
  const { args, terminal } = context;
  const shown = shortPath(folder, context);
  const id = args.text('id') ?? idFromName(basename(folder));
  if (!isAppId(id))
    throw new UsageError(`Cannot make an app id from "${basename(folder)}".`, {
      hint: 'Use letters and digits in the name of the folder, or give one with --id.',
    });
  if (existsSync(folder) && !statSync(folder).isDirectory())
    throw new CommandError(`${shown} is a file.`, 'Name a new folder.');
  for (const option of ['session', 'publish'])
    if (args.has(option))
      throw new UsageError(`--${option} needs an app on the gateway; leave out the folder.`, { command: 'new' });
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CommandError(`${shown} is not empty.`, 'Name a new folder.');
  const name = args.text('name');
  const template = args.text('clone');
  const files =
    template === undefined
      ? writeBlankApp(templateFolder('_blank'), folder, id, name ?? nameFromId(id))
      : copyTemplate(template, folder, id, name);
  terminal.answer({ id, folder, files }, () => {
    const { style } = terminal;
    terminal.line(`${style('green', '✓')} ${style('bold', id)} is ready in ${shown}`);
    for (const file of files) terminal.line(style('dim', `  ${file}`));
    terminal.line();
    terminal.line(`Make it live:      ${style('cyan', `svc push ${shellPath(shown)}`)}`);
    terminal.line(`Work in a draft:   ${style('cyan', `svc dev ${shellPath(shown)}`)}  (svc serve --store git)`);
  });
}

/** Templates that come with the gateway; those of a remote catalog are the gateway's to fetch. */
function copyTemplate(template: string, folder: string, id: string, name: string | undefined): string[] {
  const bundled = readdirSync(templateFolder()).filter(isAppId).sort();
  if (!bundled.includes(template))
    throw new UsageError(`There is no template "${template}".`, { hint: hintFor(template, bundled) });
  cpSync(templateFolder(template), folder, { recursive: true });
  renameApp(folder, id, name ?? null);
  return scanAppFolder(folder).files;
}

function hintFor(typed: string, templates: string[]): string[] {
  const meant = nearest(typed, templates);
  return [
    meant === undefined ? `There are: ${templates.join(', ')}` : `Did you mean "${meant}"?`,
    `One of the gateway's catalog is laid out there, without a folder: svc new --clone ${typed}`,
  ];
}

async function onGateway({ args, terminal, connect }: CommandContext): Promise<void> {
  const templateId = args.text('clone');
  const id = args.text('id');
  if (templateId === undefined && id === undefined)
    throw new UsageError('Name a folder, a template (--clone), or an id (--id) for an app on the gateway.', {
      command: 'new',
    });
  const client = connect();
  const sessionId = args.text('session');
  const where = { ...(sessionId === undefined ? {} : { sessionId }), publish: args.has('publish') };
  const name = args.text('name');
  const named = { ...(id === undefined ? {} : { id }), ...(name === undefined ? {} : { name }) };
  const answer =
    templateId === undefined
      ? await client.post<StagedAnswer>('/svc/_apps', { ...named, ...where })
      : await client.post<StagedAnswer>(appPath('_clone'), { templateId, ...named, ...where });
  const addressOf = await findPages(client);
  terminal.answer(answer, () => draw(terminal, answer, addressOf));
}

function draw(terminal: Terminal, { app, sessionId, staged, tag, webhooks }: StagedAnswer, addressOf: AddressOf): void {
  const { style } = terminal;
  const state = staged ? `is staged in session ${style('bold', sessionId ?? '')}` : `${tag ?? ''} is live`;
  terminal.line(`${style('green', '✓')} ${style('bold', app)} ${state}`);
  const facts: [name: string, value: string][] = staged
    ? [
        ['preview', style('cyan', addressOf({ app, session: sessionId ?? '' }))],
        ['publish', `svc publish ${app} --session ${sessionId}`],
      ]
    : [['page', style('cyan', addressOf({ app }))]];
  for (const [name, value] of facts) terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
  drawMinted(terminal, webhooks);
}
