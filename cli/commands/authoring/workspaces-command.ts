/** `svc workspaces`, `svc diff`, `svc check`, `svc publish`: workspaces, what they change, and how that goes live. */
import { resolve } from 'node:path';
import type { Received } from '../../../protocol/routes/api.ts';
import { isPath } from '../../app-argument.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { writeOrigin } from '../../dev/folder-origin.ts';
import { stageFolder } from '../../dev/stage-folder.ts';
import { CommandError, EXIT, UsageError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { findPages } from '../../gateway/page-links.ts';
import { change, find, readAll, readList, showList } from '../../resource.ts';
import { shownWorkspace, VERSIONS, WORKSPACES } from '../../resources.ts';
import { drawChanges } from '../../terminal/changes.ts';
import { nearest } from '../../terminal/nearest.ts';
import {
  drawMinted,
  drawNetwork,
  drawPending,
  drawPublic,
  drawUses,
  drawWarnings,
  factsOfVersion,
  placeOf,
} from '../apps/versions-command.ts';

const OPEN_ONE = 'Open one: svc dev <dir>, svc new --clone <template>, or svc workspaces open';

export function workspaces(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { '': list, open, rename, update, rm: close });
}

async function list({ terminal, connect }: CommandContext): Promise<void> {
  const rows = await readAll(connect(), WORKSPACES);
  showList(terminal, WORKSPACES, rows);
  if (!terminal.json) for (const { damaged } of rows) if (damaged !== undefined) terminal.note(damaged);
}

async function open(context: CommandContext): Promise<void> {
  const { args, terminal } = context;
  const body = { sessionId: args.optionalAt(1), name: args.text('name') };
  await change(context, {
    call: (client) => client.call('POST /svc/_sessions', { body }),
    done: (answer) => `workspace ${terminal.style('bold', shownWorkspace(answer))} is open`,
  });
}

async function rename(context: CommandContext): Promise<void> {
  const { args, terminal } = context;
  const id = args.wordAt(1, 'svc workspaces', '<id>', 'Open ones: svc workspaces');
  const name = args.wordAt(2, 'svc workspaces', '<name>', 'Such as: "Larger headings"');
  await change(context, {
    call: (client) => client.call('PATCH /svc/_sessions/:sid', { params: { sid: id }, body: { name } }),
    done: (answer) => `workspace ${id} is called ${terminal.style('bold', answer.name)}`,
  });
}

async function close(context: CommandContext): Promise<void> {
  const { args, connect } = context;
  const id = args.wordAt(1, 'svc workspaces', '<id>', 'Open ones: svc workspaces');
  // The gateway refuses an unknown workspace: no need to ask about it.
  const row = await find(connect(), WORKSPACES, id);
  await change(context, {
    call: (client) => client.call('DELETE /svc/_sessions/:sid', { params: { sid: id } }),
    question: row && `Close ${shownWorkspace(row)}? Its unpublished changes are lost.`,
    done: `workspace ${id} is closed`,
  });
}

async function update(context: CommandContext): Promise<void> {
  const { args, terminal, connect, subject } = context;
  const wanted = args.text('app');
  const how = `svc workspaces update <id>${wanted === undefined ? '' : ` --app ${wanted}`}`;
  const workspace = await findWorkspace(context, args.optionalAt(1), wanted, how);
  const app = wanted ?? (await onlyApp(connect(), workspace));
  subject.app = app;
  const params = { sid: workspace, id: app };
  const answer = await connect().call('POST /svc/_sessions/:sid/apps/:id/update', { params });
  terminal.answer(answer, () => {
    const { style } = terminal;
    terminal.done(`${app} in ${workspace} is up to date`);
    for (const path of answer.merged) terminal.line(`  ${style('dim', 'taken')}    ${path}`);
    for (const path of answer.conflicts) terminal.line(`  ${style('yellow', 'resolve')}  ${path}`);
  });
}

async function onlyApp(client: Client, workspace: string, how = '--app <app>'): Promise<string> {
  const [app, ...others] = (await find(client, WORKSPACES, workspace))?.apps ?? [];
  if (app !== undefined && others.length === 0) return app;
  throw new UsageError(`Name the app: ${how}.`, `Apps of the workspace: svc workspaces`);
}

/**
 * The workspace that was named, else the only open one, of those that contain `app` when that is given. `how` says how the
 * command takes a workspace.
 */
async function findWorkspace(
  { connect, subject }: CommandContext,
  named: string | undefined,
  app: string | undefined,
  how = '--workspace <id>',
): Promise<string> {
  const workspace = named ?? (await onlyWorkspace(connect(), app, how));
  subject.worksIn = workspace;
  return workspace;
}

async function onlyWorkspace(client: Client, app: string | undefined, how: string): Promise<string> {
  const rows = await readAll(client, WORKSPACES);
  const fitting = app === undefined ? rows : rows.filter(({ apps }) => apps.includes(app));
  const [only, ...others] = fitting;
  if (only === undefined) {
    if (app === undefined || rows.length === 0) throw new CommandError('No workspace is open.', OPEN_ONE);
    const meant = nearest(
      app,
      rows.flatMap(({ apps }) => apps),
    );
    const hint = meant === undefined ? ['Open workspaces: svc workspaces', OPEN_ONE] : `Did you mean "${meant}"?`;
    throw new CommandError(`No open workspace has the app "${app}".`, hint);
  }
  if (others.length === 0) return only.sessionId;
  const open = fitting.map(({ apps, ...row }) => `  ${shownWorkspace(row)}  ${apps.join(', ') || '–'}`);
  throw new UsageError(`Several workspaces are open; name one: ${how}`, ['Open workspaces:', ...open]);
}

/** What a workspace changes compared to what is published. */
export async function diff(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.optionalAt(0);
  const workspace = await findWorkspace(context, args.text('workspace'), app);
  const answer = await connect().call('GET /svc/_sessions/:sid/diff', { params: { sid: workspace }, query: { app } });
  const { files, network = [], uses = [], public: open = [], behind, webhooks } = answer;
  terminal.answer(answer, () => {
    drawChanges(
      terminal,
      files.map((file) => ({ ...file, name: `${file.app}/${file.path}` })),
      args.has('stat'),
    );
    for (const { app: one, before, after } of network)
      terminal.note(
        `${one} would reach other hosts than before: ${drawNetwork(after)} ("network" in app.json; until now ${drawNetwork(before)}).`,
      );
    for (const { app: one, before, after } of uses)
      terminal.note(
        `Pages of ${one} would call tools of other apps than before: ${drawUses(after)} ("uses" in app.json; until now ${drawUses(before)}).`,
      );
    for (const { app: one, before, after } of open)
      terminal.note(
        `Visitors of ${one} could use: ${drawPublic(after)} ("public" in app.json; until now ${drawPublic(before)}).`,
      );
    drawPending(terminal, webhooks);
    for (const one of behind)
      terminal.note(
        `${one} was published after the workspace copied it: the newer lines look deleted here, and publishing keeps them. To see your own changes only: svc workspaces update ${workspace} --app ${one}`,
      );
  });
}

/** Prints why publishing would be refused; the exit code is 1 if there is a finding. */
export async function check(context: CommandContext): Promise<number> {
  const { args, terminal, connect, subject } = context;
  const client = connect();
  const named = args.optionalAt(0);
  const workspace = await findWorkspace(context, args.text('workspace'), named);
  const app = named ?? (await onlyApp(client, workspace, 'svc check <app>'));
  subject.app = app;
  const answer = await client.call('POST /svc/_sessions/:sid/apps/:id/check', { params: { sid: workspace, id: app } });
  const { findings } = answer;
  terminal.answer(answer, () => {
    const { style } = terminal;
    if (findings.length === 0) terminal.done(`${style('bold', app)} in ${workspace} can be published`);
    for (const finding of findings) {
      const { message, keyword } = finding;
      terminal.line(`${style('red', '✗')} ${placeOf(finding)} ${message} ${style('dim', `(${keyword})`)}`);
    }
    drawWarnings(terminal, answer.warnings);
  });
  if (findings.length > 0)
    terminal.hint(`Correct it in the workspace, then publish: svc publish ${app} --workspace ${workspace}`);
  return findings.length === 0 ? EXIT.ok : EXIT.failed;
}

/** Publishes a workspace's changes to an app as its next live version; a folder is copied into a workspace first. */
export async function publish(context: CommandContext): Promise<void> {
  const { args, terminal, connect, cwd, subject } = context;
  const client = connect();
  const named = args.optionalAt(0);
  const folder = named !== undefined && isPath(named) ? resolve(cwd, named) : null;
  const staged = folder === null ? null : await stageFolder(context, folder);
  const app = staged?.app ?? named;
  if (app !== undefined) subject.app = app;
  const workspace = await findWorkspace(context, staged?.workspace ?? args.text('workspace'), app);
  const body = { app, message: args.text('message') };
  const answer = await client.call('POST /svc/_sessions/:sid/publish', { params: { sid: workspace }, body });
  const { id, tag, sha } = answer;
  if (staged !== null && folder !== null) {
    // What the publication merged with it goes into the folder. The app is live, even if that fails.
    if (await staged.draft.update().catch(() => false))
      writeOrigin(folder, { app: id, version: tag, commit: sha, gateway: client.url }, terminal);
    else terminal.warn(`The folder may lack what was published meanwhile. Take it: svc pull ${id} <dir>`);
  }
  const flat = await flatFaults(client, id);
  const canUndo = !terminal.json && (await hasOlder(client, answer));
  const addressOf = await findPages(client);
  terminal.answer(answer, () => {
    const { style } = terminal;
    terminal.done(`${style('bold', id)} ${tag} is live`);
    terminal.facts({
      commit: sha.slice(0, 12),
      taken: staged?.taken.join(', '),
      ...factsOfVersion(answer),
      page: style('cyan', addressOf({ app: id })),
      undo: canUndo ? `svc rollback ${id}` : '',
    });
    drawMinted(terminal, answer.webhooks);
    drawWarnings(terminal, answer.warnings);
  });
  for (const { message } of flat) terminal.warn(message);
}

/** Files of the published app that look like automations but are not. The app is live, even if this request fails. */
async function flatFaults(client: Client, app: string) {
  const list = await client.call('GET /svc/_automations', { query: { app } }).catch(() => null);
  return list?.errors.filter(({ code }) => code === 'flat_file') ?? [];
}

/** Whether an older version is stored; after a removal of the app there is none. */
async function hasOlder(
  client: Client,
  { id, version, tag }: Received<'POST /svc/_sessions/:sid/publish'>,
): Promise<boolean> {
  if (version === 1) return false;
  const older = await readList(client, VERSIONS, [id], { limit: 1, before: tag }).catch(() => null);
  return older !== null && older.rows.length > 0;
}
