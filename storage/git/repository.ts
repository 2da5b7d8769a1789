/** Reads and changes the bare repository of the git store during one job: one tree, `apps/<id>/…`, on the branch `main`. */
import { mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { GitRevision } from '../../protocol/wire/git-jobs.ts';
import { exists, mkdirDurable, renameDurable, syncTree, writeFileAtomic } from '../files/atomic-file.ts';
import {
  type Commit,
  damaged,
  damagedObject,
  FOLDER_MODE,
  isObjectId,
  parseCommit,
  parseTag,
  parseTree,
  type Signature,
  serializeCommit,
  serializeTree,
  type TreeEntry,
} from './object.ts';
import { ObjectStore } from './object-store.ts';
import { MAIN, nothingIn, Refs, TAGS } from './refs.ts';

const FILE_MODE = '100644';
/** Git's modes of files; apps do not use the bits in which they differ. */
const FILE_MODES = new Set([FILE_MODE, '100755', '100664']);
const APPS = 'apps';
/** Tags of tags of tags… */
const PEEL_DEPTH = 8;

export class Repository {
  readonly objects: ObjectStore;
  readonly refs: Refs;

  constructor(path: string) {
    this.objects = new ObjectStore(path);
    this.refs = new Refs(path);
  }

  /** The commit of `main`. */
  main(): string {
    const main = this.refs.read(MAIN);
    if (main === null) throw damaged(`it has no ${MAIN}`);
    return main;
  }

  /** Rejects with `UNKNOWN_VERSION` when there is no such tag, and `STORE_DAMAGED`. */
  async resolve(revision: GitRevision): Promise<string> {
    if (revision === 'main') return this.main();
    if (isObjectId(revision)) return this.peel(revision);
    const tag = this.refs.read(TAGS + revision);
    if (tag === null) throw new SvcError('UNKNOWN_VERSION', `There is no version "${revision.slice(0, 80)}".`);
    return this.peel(tag);
  }

  /** The commit that a tag object stands for; a commit stands for itself. */
  async peel(id: string): Promise<string> {
    let at = id;
    for (let depth = 0; depth < PEEL_DEPTH; depth++) {
      const { type, content } = await this.objects.read(at);
      if (type === 'commit') return at;
      if (type !== 'tag') throw damagedObject(at, `is a ${type} where a commit belongs`);
      at = parseTag(at, content).target;
    }
    throw damagedObject(id, 'is a tag of tags without end');
  }

  async commit(id: string): Promise<Commit> {
    return parseCommit(id, await this.objects.readAs('commit', id));
  }

  /** The id of the app's tree; null when the commit has no such app. */
  async appTree(commit: string, app: string): Promise<string | null> {
    return folderIn(await this.#apps(await this.#root(commit)), app);
  }

  /** The ids of the apps that the commit has. */
  async appIds(commit: string): Promise<string[]> {
    return (await this.#apps(await this.#root(commit))).map(({ name }) => name);
  }

  /** A tree like the commit's, with the app's folder replaced, or removed when `tree` is null. */
  async treeWithApp(commit: string, app: string, tree: string | null): Promise<string> {
    const root = await this.#root(commit);
    const apps = await withFolder(this.objects, await this.#apps(root), app, tree);
    return withFolder(this.objects, root, APPS, apps);
  }

  putCommit(commit: Signature & { tree: string; parents: string[]; message: string }): Promise<string> {
    return this.objects.put('commit', serializeCommit(commit));
  }

  async #root(commit: string): Promise<TreeEntry[]> {
    return readTree(this.objects, (await this.commit(commit)).tree);
  }

  async #apps(root: TreeEntry[]): Promise<TreeEntry[]> {
    const id = folderIn(root, APPS);
    return id === null ? [] : readTree(this.objects, id);
  }
}

const HEAD = `ref: ${MAIN}\n`;
const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n';

/**
 * The commit of `main`. A missing repository is made, and one without any branch or tag gets its root commit, unless it is `existing`:
 * a new one in its place would give numbers of versions again. Rejects with `STORE_DAMAGED`.
 */
export async function openRepository(path: string, by: Signature, existing = false): Promise<string> {
  if (!existing && !(await exists(path))) await create(path);
  try {
    const repository = new Repository(path);
    if (!repository.refs.any()) {
      if (existing) throw nothingIn();
      await makeRoot(repository, by);
    }
    const main = repository.main();
    await repository.commit(main);
    await mend(path);
    return main;
  } catch (error) {
    if (!existing && !(await exists(join(path, 'HEAD')))) throw damaged('it has no HEAD', error);
    throw error;
  }
}

/** Without these two files git does not take the folder for a repository. Their content is always the same. */
const OWN_FILES = Object.entries({ HEAD, config: CONFIG });

async function mend(path: string): Promise<void> {
  for (const [name, content] of OWN_FILES) {
    const file = join(path, name);
    if (await isEmpty(file)) await writeFileAtomic(file, content);
  }
}

async function isEmpty(file: string): Promise<boolean> {
  return (await stat(file).catch(() => ({ size: 0 }))).size === 0;
}

/**
 * Whether `main` stands for this commit and git takes the folder for a repository: opening it would then change nothing, and need not
 * be done. Throws `STORE_DAMAGED`.
 */
export async function isOpenAt(path: string, main: string): Promise<boolean> {
  if (new Refs(path).read(MAIN) !== main) return false;
  for (const [name] of OWN_FILES) if (await isEmpty(join(path, name))) return false;
  return true;
}

/** Makes a repository without a commit. */
export async function create(path: string): Promise<void> {
  await mkdirDurable(dirname(path));
  const making = join(dirname(path), `.${basename(path)}.tmp`);
  await rm(making, { recursive: true, force: true });
  for (const folder of ['objects/info', 'objects/pack', 'refs/heads', 'refs/tags']) {
    await mkdir(join(making, folder), { recursive: true, mode: 0o700 });
  }
  await writeFile(join(making, 'HEAD'), HEAD, { mode: 0o600 });
  await writeFile(join(making, 'config'), CONFIG, { mode: 0o600 });
  await syncTree(making);
  await renameDurable(making, path);
}

async function makeRoot(repository: Repository, by: Signature): Promise<void> {
  const tree = await repository.objects.put('tree', Buffer.alloc(0));
  const root = await repository.putCommit({ ...by, tree, parents: [], message: 'Begin' });
  await repository.objects.sync();
  await repository.refs.set(MAIN, root, null);
}

export async function readTree(objects: ObjectStore, id: string): Promise<TreeEntry[]> {
  return parseTree(id, await objects.readAs('tree', id));
}

/** The id of the folder of this name; null when there is none, or a file. */
function folderIn(entries: TreeEntry[], name: string): string | null {
  return entries.find((entry) => entry.name === name && entry.mode === FOLDER_MODE)?.id ?? null;
}

/** A new tree: the entries with the folder of this name replaced, or removed when `id` is null. */
function withFolder(objects: ObjectStore, entries: TreeEntry[], name: string, id: string | null): Promise<string> {
  const others = entries.filter((entry) => entry.name !== name);
  const own = id === null ? [] : [{ mode: FOLDER_MODE, name, id }];
  return objects.put('tree', serializeTree([...others, ...own]));
}

/**
 * Path → id of the content of every file below the tree. Rejects with `ARCHIVE_ENTRY_TYPE` for links and the like, with
 * `ARCHIVE_PATH` for what lies too deep, and with `ARCHIVE_TOO_LARGE`: a few trees that name each other again and again have more
 * files than any disk.
 */
export async function filesOf(objects: ObjectStore, tree: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  let entries = 0;
  const walk = async (id: string, prefix: string, depth: number): Promise<void> => {
    if (depth === LIMITS.archiveDepth)
      throw new SvcError('ARCHIVE_PATH', `The repository has files deeper than ${LIMITS.archiveDepth} levels here.`, {
        path: prefix.slice(0, LIMITS.archiveNameBytes),
      });
    for (const { mode, name, id: child } of await readTree(objects, id)) {
      const path = prefix + name;
      if (++entries > LIMITS.archiveEntries)
        throw new SvcError('ARCHIVE_TOO_LARGE', `The app has more than ${LIMITS.archiveEntries} entries.`, { path });
      if (mode === FOLDER_MODE) await walk(child, `${path}/`, depth + 1);
      else if (FILE_MODES.has(mode)) files.set(path, child);
      else
        throw new SvcError('ARCHIVE_ENTRY_TYPE', 'The repository has a link here; only files are allowed.', { path });
    }
  };
  await walk(tree, '', 0);
  return files;
}

/** Writes the trees of these files, path → id of the content; returns the id of the topmost. */
export function writeTree(objects: ObjectStore, files: Map<string, string>): Promise<string> {
  const root: Folder = { files: new Map(), folders: new Map() };
  for (const [path, id] of files) {
    const segments = path.split('/');
    const name = segments.pop()!;
    let folder = root;
    for (const segment of segments) {
      let next = folder.folders.get(segment);
      if (next === undefined) {
        next = { files: new Map(), folders: new Map() };
        folder.folders.set(segment, next);
      }
      folder = next;
    }
    folder.files.set(name, id);
  }
  return writeFolder(objects, root);
}

type Folder = { files: Map<string, string>; folders: Map<string, Folder> };

async function writeFolder(objects: ObjectStore, { files, folders }: Folder): Promise<string> {
  const entries: TreeEntry[] = [...files].map(([name, id]) => ({ mode: FILE_MODE, name, id }));
  for (const [name, folder] of folders)
    entries.push({ mode: FOLDER_MODE, name, id: await writeFolder(objects, folder) });
  return objects.put('tree', serializeTree(entries));
}
