/** `svc pull`: takes the live version of an app into a folder (specification, "Uploads"). */
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { plural } from '../../../protocol/text/units.ts';
import { writeSchemas } from '../../../storage/apps/app-template.ts';
import { packageRoot } from '../../../supervisor/tree/entry-points.ts';
import { type CommandContext, interruptible } from '../../command.ts';
import { contentOf, readAppId, scanAppFolder } from '../../dev/app-folder.ts';
import { fillFolder } from '../../dev/fill-folder.ts';
import { knownOrigin, type Origin, readOrigin, versionsOf, writeOrigin } from '../../dev/folder-origin.ts';
import {
  applyUpdate,
  FolderContents,
  type FolderUpdate,
  ownChanges,
  updateOf,
  VersionContents,
} from '../../dev/folder-update.ts';
import { CommandError, EXIT } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { ReceivedFiles } from '../../gateway/received.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';

/** Names listed of files that keep a folder from being updated. */
const LISTED = 6;

/** The exit code is 1 when lines are left that both sides changed. */
export async function pull(context: CommandContext): Promise<number> {
  const { args, terminal, connect, cwd } = context;
  const { style } = terminal;
  const app = args.at(0);
  const client = connect();
  const { activeVersion: version, backend } = await client.call('GET /svc/_apps/:id', { params: { id: app } });
  if (version === null)
    throw new CommandError(`No version of "${app}" is live.`, `Make one live: svc activate ${app} <version>`);
  const folder = resolve(cwd, args.optionalAt(1) ?? app);
  const rows = await versionsOf(client, app);
  const commit = rows.find(({ versionId }) => versionId === version)?.commit;
  const origin: Origin = { app, version, ...(commit !== undefined && { commit }), gateway: client.url };
  const shown = shortPath(folder, context);
  const done = await interruptible((signal) =>
    isNew(folder, shown)
      ? takeAll(client, origin, folder, signal)
      : new Update(client, { origin, folder, shown, rows, isMerged: backend === 'git' }, signal).run(),
  );
  const answer = {
    ...{ app, version, ...(commit !== undefined && { commit }), folder },
    written: [...done.write.keys()].filter((path) => !done.conflicts.includes(path)),
    deleted: done.remove,
    conflicts: done.conflicts,
  };
  terminal.answer(answer, () => {
    const { written, deleted, conflicts } = answer;
    const isSame = written.length + deleted.length + conflicts.length === 0;
    terminal.done(`${style('bold', app)} ${version} is in ${style('bold', shown)}${isSame ? ' already' : ''}`);
    if (done.isNew) terminal.facts({ files: plural(written.length, 'file') });
    else {
      for (const path of written) terminal.line(`  ${style('dim', 'taken')}    ${path}`);
      for (const path of deleted) terminal.line(`  ${style('dim', 'deleted')}  ${path}`);
      for (const path of conflicts) terminal.line(`  ${style('yellow', 'resolve')}  ${path}`);
    }
    if (conflicts.length > 0)
      terminal.hint('Choose between the lines of both sides there, before you push or publish the folder.');
    else if (done.isNew) terminal.facts({ edit: `svc dev ${shellPath(shown)}`, push: `svc push ${shellPath(shown)}` });
  });
  return answer.conflicts.length === 0 ? EXIT.ok : EXIT.failed;
}

const UNCHANGED: FolderUpdate = { write: new Map(), remove: [], conflicts: [] };

type Done = FolderUpdate & { isNew: boolean };

function isNew(folder: string, shown: string): boolean {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found !== undefined && !found.isDirectory()) throw new CommandError(`${shown} is a file.`, 'Name a folder.');
  return found === undefined || readdirSync(folder).length === 0;
}

/** Into a folder that is missing or empty: all files appear in it at once. */
async function takeAll(client: Client, origin: Origin, folder: string, signal: AbortSignal): Promise<Done> {
  const version = new VersionContents(client, origin.app, origin.version, signal);
  const write = await version.readAll(await version.list());
  await fillFolder(folder, async (filled) => {
    const names = new ReceivedFiles(filled);
    const places = [...write].map(([path, bytes]) => [names.place(path), bytes] as const);
    for (const [file, bytes] of places) {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, bytes, { flag: 'wx' });
    }
    // Its manifest may name them, for editors.
    if (write.get('app.json')?.includes('.schemas/')) writeSchemas(join(packageRoot, 'schemas'), filled);
    writeOrigin(filled, origin);
  });
  return { write: new Map([...write].sort(([a], [b]) => (a < b ? -1 : 1))), remove: [], conflicts: [], isNew: true };
}

type UpdateOptions = {
  origin: Origin;
  folder: string;
  shown: string;
  rows: VersionRecord[];
  /** Whether changes of the folder's own are merged. */
  isMerged: boolean;
};

/** Takes the live version into a folder that has files. */
class Update {
  readonly #client: Client;
  readonly #options: UpdateOptions;
  readonly #signal: AbortSignal;

  constructor(client: Client, options: UpdateOptions, signal: AbortSignal) {
    this.#client = client;
    this.#options = options;
    this.#signal = signal;
  }

  async run(): Promise<Done> {
    const { folder, origin } = this.#options;
    this.#checkApp();
    const here = await FolderContents.of(folder);
    const update = await this.#update(here);
    this.#signal.throwIfAborted();
    await applyUpdate(folder, here.ids, update);
    writeOrigin(folder, origin);
    return { ...update, isNew: false };
  }

  async #update(here: FolderContents): Promise<FolderUpdate> {
    const { origin, isMerged } = this.#options;
    const live = await this.#version(origin.version);
    const from = await this.#from();
    const base = from === origin.version || from === null ? live : await this.#version(from);
    const own = here.ids.size === 0 ? [] : await ownChanges(here, base);
    if (own.length === 0) return updateOf(here, null, live);
    if (from === null) throw this.#refused('differs from what is live, and does not say which version it is from', own);
    if (!isMerged) throw this.#refused('has changes of its own, which only the git store can merge', own);
    return base === live ? UNCHANGED : updateOf(here, base, live);
  }

  /** The version that the folder's files came from; null where nothing says it. */
  async #from(): Promise<string | null> {
    const { folder, origin, rows } = this.#options;
    const said = knownOrigin(readOrigin(folder, origin.app), rows);
    if (said !== undefined) return said.versionId;
    const hash = await contentOf(folder, scanAppFolder(folder).files).catch(() => null);
    return rows.find(({ sha256 }) => sha256 === hash)?.versionId ?? null;
  }

  #refused(how: string, paths: string[]): CommandError {
    const { shown, origin } = this.#options;
    const more = paths.length > LISTED ? `, and ${paths.length - LISTED} more` : '';
    return new CommandError(`${shown} ${how}: ${paths.slice(0, LISTED).join(', ')}${more}.`, [
      `Pull into another folder, and compare: svc pull ${origin.app} <dir>`,
      `Or make the folder live as it is: svc push ${shellPath(shown)} --force`,
    ]);
  }

  #checkApp(): void {
    const { folder, origin, shown } = this.#options;
    if (!existsSync(join(folder, 'app.json')) && scanAppFolder(folder).files.length === 0) return;
    const id = readAppId(folder);
    if (id !== origin.app)
      throw new CommandError(`${shown} is a folder of the app "${id}".`, `Name another: svc pull ${origin.app} <dir>`);
  }

  async #version(version: string) {
    const contents = new VersionContents(this.#client, this.#options.origin.app, version, this.#signal);
    return { contents, ids: await contents.list() };
  }
}
