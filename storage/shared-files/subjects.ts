/**
 * Says what each path of a data directory belongs to in a cluster: to an app, to a part of a workspace, or to the node alone (specification, "Files in the cluster"). Paths are those of a usual data directory, with `/`: `apps/…`, `code-store/…`.
 */
import { realpath } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { bucketOf, bucketOfPart } from '../../protocol/buckets.ts';
import { parseWorkspacePart, workspacePart } from '../../protocol/ids.ts';
import { parseTrashed } from '../apps/trash.ts';
import { readWorkspace } from '../authoring/workspace-records.ts';
import { isMissing, namesIn } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';

/** What is stored and fetched as a whole. The id of kind `workspace` is that of a part, `<workspace>~<app>`. */
export type Subject = { readonly kind: 'app' | 'workspace'; readonly id: string };

/** Whose a path is; or why no other node gets it. */
export type Belonging = { readonly subject: Subject } | { readonly leftOut: LeftOut };

/** Each stays with its node, because … */
export const LEFT_OUT = {
  database: 'the log of pages has it',
  key: 'it opens what the database holds, and the database must not open it itself: the operator gives each node the same keys',
  directory: 'the tables of the cluster say which apps and workspaces there are',
  code: 'the tables of the cluster have the objects and names of the repository',
  whole: 'a gateway of its own has the workspace in one piece, and each node of a cluster its parts',
  node: 'it tells of this node, or of a process on it',
  derived: 'it is made anew from what is shared',
  log: 'lines tell what happened on this node',
  backup: 'it is a copy, for the operator',
  unfinished: 'a crash removes it too',
} as const;
export type LeftOut = keyof typeof LEFT_OUT;

/** What hides the folders of a workspace that wait to replace others, or to be replaced. */
const REPLACING = /^code-store\/worktrees\/sessions\/\.[0-9a-f-]{36}(?:\/|$)/;
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const APP = '([a-z0-9][a-z0-9_-]{0,62})';
const WORKSPACE = '([A-Za-z0-9][A-Za-z0-9_-]{0,63})';
const PART = `(${WORKSPACE.slice(1, -1)}~${APP.slice(1, -1)})`;
/** The path itself, or what is below it. */
const END = '(?:/.*)?$';

const app = (id: string): Belonging => ({ subject: { kind: 'app', id } });
const part = (id: string): Belonging => ({ subject: { kind: 'workspace', id } });
const draft = (id: string, app: string): Belonging => part(workspacePart(id, app));
const leftOut = (why: LeftOut) => (): Belonging => ({ leftOut: why });

/** The first that matches counts. */
const RULES: readonly (readonly [RegExp, (...ids: [string, string]) => Belonging])[] = rules([
  [`.*/\\.${UUID}\\.tmp$`, leftOut('unfinished')],
  [`(?:tmp|apps/_tmp)${END}`, leftOut('unfinished')],
  [`trash/\\..*`, leftOut('unfinished')],

  [`(?:runtime|identity|analytics)\\.sqlite[^/]*$|runtime/\\d+\\.sqlite[^/]*$`, leftOut('database')],
  [`(?:token|session-key)\\.bin$|(?:secrets|push)\\.key$`, leftOut('key')],
  [`apps/_registry\\.json[^/]*$`, leftOut('directory')],
  [`(?:lock|profile\\.json|format\\.json|migration\\.json|apps/_store\\.json)$`, leftOut('node')],
  [`(?:run|desktop|agents|migrations)${END}`, leftOut('node')],
  [`templates-cache${END}|model-catalog\\.json$`, leftOut('derived')],
  [`backups${END}|backups\\.json$`, leftOut('backup')],

  [`apps/${APP}/data\\.sqlite[^/]*$`, leftOut('database')],
  [`(?:apps|trash)/[^/]+/logs\\.jsonl(?:\\.1)?$`, leftOut('log')],
  [`(?:apps|trash)/[^/]+/backups${END}`, leftOut('backup')],
  [`(?:apps|trash)/[^/]+/versions/\\.[^/]+\\.tmp$`, leftOut('unfinished')],
  [`apps/${APP}(?:/(?:current|removed|settings|webhook-keys|secrets)\\.json(?:\\.damaged${END})?)?$`, app],
  [`apps/${APP}/(?:_blobs|_attachments|_chat|versions|prepared)${END}`, app],
  [`journal/${APP}\\.json(?:\\.damaged${END})?$`, app],
  // The last part of the name is the time.
  [`trash/(${APP.slice(1, -1)})-\\d{13,}${END}`, app],
  [`code-store/worktrees/main/[0-9a-f]{40}/apps/${APP}${END}`, app],

  [`apps/_drafts/[^/]+/[^/]+/data\\.sqlite[^/]*$`, leftOut('database')],
  [`apps/_drafts/[^/]+/[^/]+/logs\\.jsonl(?:\\.1)?$`, leftOut('log')],
  [`apps/_drafts/[^/]+/[^/]+/(?:versions|prepared)${END}`, leftOut('derived')],
  [`apps/_drafts/[^/]+/[^/]+/backups${END}`, leftOut('backup')],
  [`apps/_drafts/${WORKSPACE}/${APP}(?:/[a-z-]+\\.json|/_(?:blobs|attachments|chat)${END})?$`, draft],
  [`code-store/worktrees/sessions/${PART}${END}`, part],
  [`code-store/worktrees/sessions/\\.aside\\.${PART}\\..*`, part],
  [`code-store/worktrees/sessions/\\..*`, leftOut('unfinished')],
  [`code-store/worktrees/sessions/${WORKSPACE}${END}`, leftOut('whole')],

  [`code-store/conversion\\.json$`, leftOut('node')],
  [`code-store/apps\\.git/.*\\.lock$|code-store/apps\\.git/objects/(?:.*/)?tmp_[^/]*$`, leftOut('unfinished')],
  [`code-store/apps\\.git${END}|code-store/(?:active-main|shared\\.json)$`, leftOut('code')],
]);

function rules(list: [string, (...ids: [string, string]) => Belonging][]): typeof RULES {
  return list.map(([pattern, belonging]) => [new RegExp(`^(?:${pattern})`, 's'), belonging] as const);
}

/** Null for a path that no gateway makes, such as a folder that only leads to others, or a file of another program. */
export function belongingOf(path: string): Belonging | null {
  for (const [pattern, belonging] of RULES) {
    const match = pattern.exec(path);
    const [id = '', app = ''] = match?.slice(1).filter((group) => group !== undefined) ?? [];
    if (match !== null) return belonging(id, app);
  }
  return null;
}

/** Whether the path is one that the subject may have: it leads nowhere else, and is not left out. */
export function belongsTo(path: string, subject: Subject): boolean {
  if (!path.split('/').every((name) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0')))
    return false;
  if (subject.kind === 'workspace' && REPLACING.test(path)) return !path.endsWith('.tmp');
  const belonging = belongingOf(path);
  return belonging !== null && 'subject' in belonging && nameOf(belonging.subject) === nameOf(subject);
}

/** Tells subjects apart, in the database too. */
export function nameOf(subject: Subject): string {
  return `${subject.kind}/${subject.id}`;
}

/** The subject of a name. */
export function subjectOf(name: string): Subject {
  const [kind, id = ''] = name.split('/', 2);
  return { kind: kind === 'app' ? kind : 'workspace', id };
}

/** The bucket whose owner may store it. */
export function bucketOfSubject(subject: Subject): number {
  return subject.kind === 'workspace' ? bucketOfPart(subject.id) : bucketOf(subject.id);
}

/** The uppermost paths of a subject: those that can be there. The code that versions link to is found with the links. */
export async function rootsOf(layout: Layout, subject: Subject): Promise<string[]> {
  const { id } = subject;
  if (subject.kind === 'app') {
    const trashed = (await namesIn(layout.trashDir)).filter((name) => parseTrashed(name)?.app === id);
    return [`apps/${id}`, `journal/${id}.json`, ...trashed.map((name) => `trash/${name}`)];
  }
  const { workspace = '', app = '' } = parseWorkspacePart(id) ?? {};
  const roots = [`apps/_drafts/${workspace}/${app}`, `code-store/worktrees/sessions/${id}`];
  if (layout.codeStore === null) return roots;
  const aside = (await namesIn(layout.codeStore.workspacesDir)).filter((name) => name.startsWith(`.aside.${id}.`));
  const record = await readWorkspace(layout.codeStore.workspace(id)).catch(() => null);
  const waiting = Object.values(record?.apps ?? {}).flatMap(({ from }) => from ?? []);
  return [...roots, ...[...aside, ...waiting].map((name) => `code-store/worktrees/sessions/${name}`)];
}

/** Where the paths are on this node: `appsDir` and `appsStoreRoot` may be anywhere. */
export class Places {
  readonly #bases: readonly (readonly [prefix: string, dir: string])[];

  private constructor(bases: readonly (readonly [string, string])[]) {
    this.#bases = bases;
  }

  /** Folders that are links themselves are entered: the operator made them. */
  static async of({ dataDir, appsDir, codeStore }: Layout): Promise<Places> {
    const store = codeStore === null ? [] : ([['code-store', await realOf(codeStore.dir)]] as const);
    return new Places([['apps', await realOf(appsDir)], ...store, ['', await realOf(dataDir)]]);
  }

  /** Null where the node has no place for it: a git store's, on the tarball backend. */
  local(path: string): string | null {
    for (const [prefix, dir] of this.#bases) {
      if (prefix === '') return path.startsWith('code-store/') ? null : join(dir, path);
      if (path.startsWith(`${prefix}/`)) return join(dir, path.slice(prefix.length + 1));
    }
    return null;
  }

  /** The path that a file of the node stands for; null for one outside. */
  pathOf(local: string): string | null {
    for (const [prefix, dir] of this.#bases) {
      if (!local.startsWith(dir + sep)) continue;
      const path = join(prefix, relative(dir, local));
      return this.local(path) === local ? path : null;
    }
    return null;
  }

  /** The path that a link leads to, by its text; null for one that leads outside. */
  async targetOf(link: string, text: string): Promise<string | null> {
    return this.pathOf(resolve(await realOf(dirname(link)), text));
  }
}

/** The folder without links on its way; it may be missing. */
export async function realOf(dir: string): Promise<string> {
  try {
    return await realpath(dir);
  } catch (error) {
    if (!isMissing(error) || dirname(dir) === dir) throw error;
    return join(await realOf(dirname(dir)), dir.slice(dirname(dir).length).replace(sep, ''));
  }
}
