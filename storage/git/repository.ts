/** The bare repository of the git store for the time of one job: one tree, `apps/<id>/…`, on the branch `main`. */
import { SvcError } from '../../protocol/errors.ts';
import type { GitRevision } from '../../protocol/git-jobs.ts';
import { type Commit, parseCommit, parseTag, type Signature, serializeCommit } from './commit.ts';
import { damaged, damagedObject, isObjectId } from './object.ts';
import { ObjectStore } from './object-store.ts';
import { MAIN, Refs, TAGS } from './refs.ts';
import { folderIn, readTree, type TreeEntry, withFolder } from './tree.ts';

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
