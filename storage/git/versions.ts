/** Versions of an app: annotated tags `<app>/v<n>`, whose numbers are given once. */
import { SvcError } from '../../protocol/errors.ts';
import type { GitTag, GitVersion, GitVersionInfo, ListVersionsResult } from '../../protocol/git-jobs.ts';
import { versionNumber } from '../../protocol/ids.ts';
import { parseTag, type Signature, serializeTag } from './commit.ts';
import { DELETED, TAGS } from './refs.ts';
import type { Repository } from './repository.ts';

const INFO = 'svc: ';

/** The tag object; its name is set later, with `nameTag`. Null when the name stands for this commit already. */
export async function putTag(
  repository: Repository,
  commit: string,
  tag: GitTag,
  by: Signature,
): Promise<string | null> {
  const present = repository.refs.read(TAGS + tag.name);
  if (present !== null) {
    if ((await repository.peel(present)) === commit) return null;
    throw new SvcError('CONFLICT', `The tag "${tag.name}" exists already and is another version.`);
  }
  const info = tag.info === undefined ? '' : `\n\n${INFO}${JSON.stringify(tag.info)}`;
  const message = `${tag.message.trimEnd()}${info}`;
  return repository.objects.put('tag', serializeTag({ ...by, name: tag.name, target: commit, message }));
}

export async function nameTag(repository: Repository, name: string, id: string): Promise<void> {
  await repository.refs.set(TAGS + name, id, null);
}

/** Newest first. Reads only the tags that it answers. */
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

/** One more than the highest that was ever given, removed versions and apps included. */
export function nextNumber(repository: Repository, app: string): number {
  let highest = 0;
  for (const prefix of [TAGS, DELETED]) {
    for (const { number } of numbered(repository.refs.list(`${prefix}${app}/`), prefix, app)) {
      highest = Math.max(highest, number);
    }
  }
  return highest + 1;
}

/** Sets the tag aside, or all of the app's, so that it is no version any more and its number stays taken. */
export async function retire(repository: Repository, app: string, tag: string | null): Promise<string[]> {
  const all = [...numbered(repository.refs.list(`${TAGS}${app}/`), TAGS, app)];
  const leaving = all.filter(({ name }) => tag === null || name === tag);
  for (const { name, id } of leaving) await repository.refs.set(DELETED + name, id, null);
  await repository.refs.remove(leaving.map(({ name }) => TAGS + name));
  return leaving.map(({ name }) => name);
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
  if (type !== 'tag') {
    return { tag: name, number, commit, message: '', at: (await repository.commit(commit)).at, info: null };
  }
  const { message, at } = parseTag(id, content);
  const lines = message.split('\n');
  const line = lines.findLastIndex((text) => text.startsWith(INFO));
  const info = line < 0 ? null : parseInfo(lines[line]!.slice(INFO.length));
  const text = info === null ? message : lines.toSpliced(line, 1).join('\n');
  return { tag: name, number, commit, message: text.trim(), at, info };
}

function parseInfo(json: string): GitVersionInfo | null {
  let value: Partial<Record<keyof GitVersionInfo, unknown>> | null;
  try {
    value = JSON.parse(json) as typeof value;
  } catch {
    return null;
  }
  const { sha256, version, uploadedAt, files, bytes } = value ?? {};
  const whole =
    typeof sha256 === 'string' &&
    typeof version === 'string' &&
    typeof uploadedAt === 'string' &&
    typeof files === 'number' &&
    typeof bytes === 'number';
  return whole ? { sha256, version, uploadedAt, files, bytes } : null;
}
