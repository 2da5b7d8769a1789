/**
 * Works out what becomes of an app folder when it takes in the live version: its files, those of the version that it came from, and
 * the live ones, merged three ways. Writes nothing before all of it is known.
 */
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isAutomationFile } from '../../protocol/automations/automation.ts';
import { requestOf } from '../../protocol/http/client.ts';
import { isOfPackage } from '../../protocol/rules/handler-imports.ts';
import { isLeftOut } from '../../protocol/rules/left-out.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import { inParallel, StagedFile } from '../../storage/files/atomic-file.ts';
import { removeEmpty } from '../../storage/files/remove-empty.ts';
import { changedFiles, type FileIds, markConflicts, mergeFiles, type Sides } from '../../storage/git/merge-files.ts';
import { objectId } from '../../storage/git/object.ts';
import { CommandError } from '../failure.ts';
import type { Client } from '../gateway/client.ts';
import { checkContent, listedFiles, ReceivedFiles } from '../gateway/received.ts';
import { scanAppFolder } from './app-folder.ts';
import { idOf } from './folder-sync.ts';
import { Packages } from './packages.ts';

const NEW_FILE = 0o644;
const AT_ONCE = 4;

/** `write` are contents by path; both lists are sorted by path. `conflicts` are those of the written files that need a choice. */
export type FolderUpdate = { write: ReadonlyMap<string, Buffer>; remove: string[]; conflicts: string[] };

/** The files of a version of an app as a gateway has them. */
export class VersionContents {
  readonly #client: Client;
  readonly #version: { id: string; versionId: string };
  readonly #signal: AbortSignal;

  constructor(client: Client, app: string, version: string, signal: AbortSignal) {
    this.#client = client;
    this.#version = { id: app, versionId: version };
    this.#signal = signal;
  }

  /** Those that a folder of an app may hold. */
  async list(): Promise<FileIds> {
    const [params, signal] = [this.#version, this.#signal];
    const listed = await this.#client.call('GET /svc/_apps/:id/versions/:versionId/files', { params }, { signal });
    const files = listedFiles(listed).filter(({ path }) => !isLeftOut(path));
    return new Map(files.map(({ path, sha }) => [path, sha]));
  }

  async read(path: string, sha: string): Promise<Buffer> {
    const [params, signal] = [{ ...this.#version, '*': path }, this.#signal];
    const bytes = await this.#client.bytesOf(
      requestOf('GET /svc/_apps/:id/versions/:versionId/files/*', { params }, { signal }),
    );
    checkContent(path, bytes, sha);
    return bytes;
  }

  /** All of these, by path. */
  async readAll(files: FileIds): Promise<Map<string, Buffer>> {
    const contents = new Map<string, Buffer>();
    await inParallel([...files], AT_ONCE, async ([path, sha]) => {
      contents.set(path, await this.read(path, sha));
    });
    return contents;
  }
}

/** A folder's files, with the packages that its handlers import as they would be sent. */
export class FolderContents {
  readonly ids: FileIds;
  readonly #folder: string;
  readonly #bundles: ReadonlyMap<string, Buffer>;

  private constructor(folder: string, files: string[], bundles: ReadonlyMap<string, Buffer>) {
    this.#folder = folder;
    this.#bundles = bundles;
    const paths = [...new Set([...files, ...bundles.keys()])].sort();
    this.ids = new Map(paths.map((path) => [path, objectId('blob', this.read(path))]));
  }

  static async of(folder: string): Promise<FolderContents> {
    const { files } = scanAppFolder(folder);
    return new FolderContents(folder, files, (await new Packages(folder).bundle(files)).files);
  }

  read(path: string): Buffer {
    return this.#bundles.get(path) ?? readFileSync(join(this.#folder, path));
  }

  /** Whether it is made from an installed package, and no file of the folder. */
  isMade(path: string): boolean {
    return this.#bundles.has(path);
  }
}

type Version = { contents: VersionContents; ids: FileIds };

/** Sorted paths of what the folder changes of the version that it came from. What a gateway writes into automations is no change. */
export async function ownChanges(folder: FolderContents, base: Version): Promise<string[]> {
  const own: string[] = [];
  for (const path of changedFiles(base.ids, folder.ids))
    if (!isOfPackage(path) && !(await isSame(path, folder, base))) own.push(path);
  return own;
}

/** What the folder becomes; without `base` nothing of its own is kept. */
export async function updateOf(folder: FolderContents, base: Version | null, live: Version): Promise<FolderUpdate> {
  const conflicts: string[] = [];
  let wanted: FileIds = live.ids;
  const kept = new Map<string, Buffer>();
  const placeOf = (ids: FileIds): Map<string, string> => new Map([...ids].map(([path, id]) => [id, path]));
  const [ours, theirs, before] = [placeOf(folder.ids), placeOf(live.ids), placeOf(base?.ids ?? new Map())];
  const read = async (id: string): Promise<Buffer> => {
    const [own, there, then] = [ours.get(id), theirs.get(id), before.get(id)];
    if (kept.has(id)) return kept.get(id) as Buffer;
    if (own !== undefined) return folder.read(own);
    if (there !== undefined) return live.contents.read(there, id);
    return (base as Version).contents.read(then as string, id);
  };
  if (base !== null) {
    const keep = (content: Buffer): string => {
      const id = objectId('blob', content);
      kept.set(id, content);
      return id;
    };
    const sides: Sides = { base: base.ids, ours: folder.ids, theirs: live.ids };
    const merged = await mergeFiles(sides, { read, keep });
    wanted = await markConflicts(sides, merged, { read, keep });
    conflicts.push(...merged.conflicts);
  }
  const write = new Map<string, Buffer>();
  const remove: string[] = [];
  for (const path of changedFiles(folder.ids, wanted)) {
    const id = wanted.get(path);
    if (folder.isMade(path)) continue;
    if (id === undefined) remove.push(path);
    else if (!(await isSame(path, folder, live))) write.set(path, await read(id));
  }
  return { write, remove, conflicts };
}

/** The same but for the switch, and the address and secret of a webhook, which the gateway writes into the files of automations. */
async function isSame(path: string, folder: FolderContents, version: Version): Promise<boolean> {
  const [here, there] = [folder.ids.get(path), version.ids.get(path)];
  if (here === there) return true;
  if (here === undefined || there === undefined || !isAutomationFile(path)) return false;
  const [own, stored] = [folder.read(path), await version.contents.read(path, there)].map(withoutGateway);
  return own !== null && own === stored;
}

function withoutGateway(bytes: Buffer): string | null {
  try {
    const { enabled: _, trigger, triggers, ...file } = JSON.parse(bytes.toString()) as Record<string, unknown>;
    const list = Array.isArray(triggers) ? triggers : [trigger];
    return JSON.stringify({ ...file, triggers: list.map(withoutAddress) });
  } catch {
    return null;
  }
}

function withoutAddress(trigger: unknown): unknown {
  if (!isRecord(trigger) || trigger.kind !== 'webhook') return trigger;
  const { id: _, secretHash: __, pending: ___, ...rest } = trigger;
  return rest;
}

/** Throws before anything is written when a name would lead out of the folder. Each file is old or new at any time. */
export async function applyUpdate(folder: string, known: FileIds, { write, remove }: FolderUpdate): Promise<void> {
  const leaving = new Set(remove);
  const staying = [...known.keys()].filter((path) => !leaving.has(path));
  const names = new ReceivedFiles(folder, staying);
  const places = new Map([...write].map(([path, bytes]) => [names.place(path), { path, bytes }]));
  for (const path of remove) {
    rmSync(join(folder, path), { force: true });
    removeEmpty(folder, dirname(path));
  }
  for (const [file, { path, bytes }] of places) {
    if (known.has(path) && idOf(file) !== known.get(path))
      throw new CommandError(`${path} was edited meanwhile.`, 'Run the command again.');
    mkdirSync(dirname(file), { recursive: true });
    const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? NEW_FILE;
    await (await StagedFile.write(file, bytes, mode)).place();
  }
}
