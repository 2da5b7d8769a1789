/**
 * Makes versions of an app: commits of `main` with the app replaced, and annotated tags `<app>/v<n>` with numbers that are
 * never reused.
 */
import { SvcError } from '../../protocol/errors.ts';
import { versionNumber, versionTag } from '../../protocol/ids.ts';
import { number, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type {
  CommitResult,
  GitTag,
  GitVersion,
  GitVersionInfo,
  ListVersionsResult,
} from '../../protocol/wire/git-jobs.ts';
import { parseTag, type Signature, serializeTag } from './object.ts';
import { DELETED, MAIN, TAGS } from './refs.ts';
import type { Repository } from './repository.ts';

type VersionCommit = {
  main: string;
  app: string;
  tree: string | null;
  message: string;
  by: Signature;
  always?: boolean;
};

/** Makes the commit of a version; no name is moved to it. `tree` is the app's, null to remove it; what `main` has already is committed with `always` only. All objects are durable when it resolves. */
export async function commitTree(
  repository: Repository,
  { main, app, tree, message, by, always = false }: VersionCommit,
): Promise<CommitResult> {
  const unchanged = !always && (await repository.appTree(main, app)) === tree;
  const commit = unchanged
    ? main
    : await repository.putCommit({
        ...by,
        tree: await repository.treeWithApp(main, app, tree),
        parents: [main],
        message,
      });
  await repository.objects.sync();
  return { commit, parent: main, tree, unchanged };
}

/**
 * Tags the commit and brings it to `main`: as it is, or merged when another app was published meanwhile. Resolves with the
 * commit of `main`, all durable; done twice, the second time changes nothing. The caller lets no two run at a time.
 */
export async function settle(
  repository: Repository,
  { app, commit, tag, by }: { app: string; commit: string; tag: GitTag | null; by: Signature },
): Promise<string> {
  const tagId = tag === null ? null : await putTag(repository, commit, tag, by);
  const main = repository.main();
  const next = await onMain(repository, { main, app, commit, title: tag?.name ?? app, by });
  await repository.objects.sync();
  if (tag !== null && tagId !== null) await nameTag(repository, tag.name, tagId);
  if (next !== main) await repository.refs.set(MAIN, next, main);
  return next;
}

/** Makes only the tag, for a version that `main` does not have. */
export async function tagOnly(repository: Repository, commit: string, tag: GitTag, by: Signature): Promise<void> {
  const id = await putTag(repository, commit, tag, by);
  await repository.objects.sync();
  if (id !== null) await nameTag(repository, tag.name, id);
}

/** The commit that `main` moves to: `main` itself when it has the same files of the app already. */
async function onMain(
  repository: Repository,
  { main, app, commit, title, by }: { main: string; app: string; commit: string; title: string; by: Signature },
): Promise<string> {
  if (main === commit) return main;
  if ((await repository.commit(commit)).parents.includes(main)) return commit;
  const tree = await repository.appTree(commit, app);
  if ((await repository.appTree(main, app)) === tree) return main;
  return repository.putCommit({
    ...by,
    tree: await repository.treeWithApp(main, app, tree),
    parents: [main, commit],
    message: `Merge ${title}`,
  });
}

const INFO = 'svc: ';

/** The tag object; its name is set later, with `nameTag`. Null when the name stands for this commit already. */
async function putTag(repository: Repository, commit: string, tag: GitTag, by: Signature): Promise<string | null> {
  const present = repository.refs.read(TAGS + tag.name);
  if (present !== null) {
    if ((await repository.peel(present)) === commit) return null;
    throw new SvcError('CONFLICT', `The tag "${tag.name}" exists already and is another version.`);
  }
  const info = tag.info === undefined ? '' : `\n\n${INFO}${JSON.stringify(tag.info)}`;
  const message = `${tag.message.trimEnd()}${info}`;
  return repository.objects.put('tag', serializeTag({ ...by, name: tag.name, target: commit, message }));
}

async function nameTag(repository: Repository, name: string, id: string): Promise<void> {
  await repository.refs.set(TAGS + name, id, null);
}

/** Newest first. Reads only the tags that it returns. */
export async function listVersions(
  repository: Repository,
  app: string,
  { limit, before }: { limit: number; before: number | null },
): Promise<ListVersionsResult> {
  const tags = [...numbered(repository.refs.list(`${TAGS}${app}/`), TAGS, app)];
  const wanted = tags.filter(({ number }) => before === null || number < before);
  wanted.sort((a, b) => b.number - a.number);
  const versions: GitVersion[] = [];
  for (const tag of wanted.slice(0, limit)) versions.push(await readVersion(repository, tag));
  return { versions, total: tags.length };
}

/** One more than the highest number so far, including removed versions and apps. */
export function nextNumber(repository: Repository, app: string): number {
  let highest = 0;
  for (const prefix of [TAGS, DELETED]) {
    for (const { number } of numbered(repository.refs.list(`${prefix}${app}/`), prefix, app)) {
      highest = Math.max(highest, number);
    }
  }
  return highest + 1;
}

/** Moves the tag, or all of the app's, to `refs/deleted/`: it is no longer a version, and its number stays taken. */
export async function retire(repository: Repository, app: string, tag: string | null): Promise<string[]> {
  const all = [...numbered(repository.refs.list(`${TAGS}${app}/`), TAGS, app)];
  const leaving = all.filter(({ name }) => tag === null || name === tag);
  for (const { name, id } of leaving) await repository.refs.set(DELETED + name, id, null);
  await repository.refs.remove(leaving.map(({ name }) => TAGS + name));
  return leaving.map(({ name }) => name);
}

/** Undoes that: these versions of a removed app are tags again. Done twice, the second time changes nothing. */
export async function revive(repository: Repository, app: string, wanted: number[]): Promise<string[]> {
  const retired = [...numbered(repository.refs.list(`${DELETED}${app}/`), DELETED, app)];
  const coming = retired.filter(({ number }) => wanted.includes(number));
  for (const { name, id } of coming) await repository.refs.set(TAGS + name, id, null);
  await repository.refs.remove(coming.map(({ name }) => DELETED + name));
  return versionNumbers(repository, app).map((number) => versionTag(app, number));
}

/** Ascending. */
export function versionNumbers(repository: Repository, app: string): number[] {
  const tags = numbered(repository.refs.list(`${TAGS}${app}/`), TAGS, app);
  return [...tags].map(({ number }) => number).sort((a, b) => a - b);
}

type Numbered = { name: string; id: string; number: number };

function* numbered(refs: Map<string, string>, prefix: string, app: string): Generator<Numbered> {
  for (const [ref, id] of refs) {
    const name = ref.slice(prefix.length);
    const number = versionNumber(app, name);
    if (number !== null) yield { name, id, number };
  }
}

async function readVersion(repository: Repository, { name, id, number }: Numbered): Promise<GitVersion> {
  const { type, content } = await repository.objects.read(id);
  const commit = await repository.peel(id);
  const made = await repository.commit(commit);
  const commitMessage = made.message.replace(`\n\nVersion: ${name}\n`, '').trim();
  if (type !== 'tag') return { tag: name, number, commit, message: '', commitMessage, at: made.at, info: null };
  const { message, at } = parseTag(id, content);
  const lines = message.split('\n');
  const line = lines.findLastIndex((text) => text.startsWith(INFO));
  const info = line < 0 ? null : parseInfo(lines[line]!.slice(INFO.length));
  const text = info === null ? message : lines.toSpliced(line, 1).join('\n');
  return { tag: name, number, commit, message: text.trim(), commitMessage, at, info };
}

const VERSION_INFO = shape(
  object({ sha256: text, version: text, uploadedAt: text, files: number, bytes: number }, { by: text }),
);

function parseInfo(json: string): GitVersionInfo | null {
  try {
    return VERSION_INFO.part(JSON.parse(json));
  } catch {
    return null;
  }
}
