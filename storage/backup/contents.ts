/** Lists what a backup holds: the parts of a data directory in the order in which they are packed, and the paths that they may have. */
import { basename, dirname, join } from 'node:path';
import { isAppId, isChosenId, isVersionId } from '../../protocol/ids.ts';
import type { BackupSource } from '../../protocol/wire/jobs.ts';
import { namesIn } from '../files/atomic-file.ts';
import type { AppPaths, CodeStorePaths, Layout } from '../layout.ts';

/**
 * A database, a file, a folder with `files` of such names in it, one with anything in it (`tree`), or a folder of such `trees`. Where
 * one of those is a link, what it leads to is meant: with the git store, code lies there.
 */
type Part = 'database' | 'file' | 'tree' | { files: RegExp } | { trees(name: string, app: string): boolean };
type Parts = ReadonlyMap<string, Part>;

const VERSIONS: Part = { trees: (name, app) => isVersionId(name.startsWith('v_') ? name : `${app}/${name}`) };

/** The gateway's own. Packed before the apps: an idempotency key must be older than the data that it speaks of. */
const GATEWAY: Parts = new Map([
  ['runtime.sqlite', 'database'],
  ['identity.sqlite', 'database'],
  ['analytics.sqlite', 'database'],
  ['profile.json', 'file'],
]);

/** Of each app; without its log and the copies of its data from before migrations. */
const APP: Parts = new Map<string, Part>([
  ['current.json', 'file'],
  // In backups of older releases alone.
  ['pending.json', 'file'],
  ['data.sqlite', 'database'],
  ['settings.json', 'file'],
  ['webhook-keys.json', 'file'],
  ['secrets.json', 'file'],
  ['_attachments', { files: /^[0-9a-f]{64}$/ }],
  // After the data: a file is stored before the row that names it.
  ['_blobs', { files: /^[0-9a-f]{64}(?:\.type)?$/ }],
  ['_chat', { files: /./ }],
  ['versions', VERSIONS],
  ['prepared', VERSIONS],
]);

/** The git store's. Packed after the apps, so that each live version has its tag; refs before the objects that they name. */
const REPOSITORY: Parts = new Map([
  ['HEAD', 'file'],
  ['config', 'file'],
  ['refs', 'tree'],
  ['packed-refs', 'file'],
  ['objects', 'tree'],
]);
/** Others in this folder are being made or removed, or are waiting to replace a part of a workspace. */
const WORKTREES: Parts = new Map([['sessions', { trees: isChosenId }]]);

/** Those that a backup makes for itself. */
const WRITTEN = new Set(['config.json', 'apps/_registry.json', 'apps/_store.json']);

export const gatewaySources = (layout: Layout): Promise<BackupSource[]> => sourcesOf(GATEWAY, layout.dataDir, '');

/** `intent` is the app's file in the journal: what a full disk left unfinished. */
export async function appSources(id: string, app: AppPaths, intent: string): Promise<BackupSource[]> {
  return [
    ...(await sourcesOf(APP, app.dir, `apps/${id}/`)),
    { kind: 'files', path: `journal/${id}.json`, from: intent },
  ];
}

export async function storeSources({ repository, workspacesDir }: CodeStorePaths): Promise<BackupSource[]> {
  return [
    ...(await sourcesOf(REPOSITORY, repository, 'code-store/apps.git/')),
    ...(await sourcesOf(WORKTREES, dirname(workspacesDir), 'code-store/worktrees/')),
  ];
}

async function sourcesOf(parts: Parts, folder: string, prefix: string): Promise<BackupSource[]> {
  const sources: BackupSource[] = [];
  for (const [name, part] of parts) {
    const source = {
      kind: part === 'database' ? part : 'files',
      path: `${prefix}${name}`,
      from: join(folder, name),
    } as const;
    if (typeof part !== 'object' || !('trees' in part)) {
      sources.push(source);
      continue;
    }
    const trees = (await namesIn(source.from)).filter((tree) => part.trees(tree, basename(folder)));
    for (const tree of trees)
      sources.push({ ...source, path: `${source.path}/${tree}`, from: join(source.from, tree) });
  }
  return sources;
}

/** What a path in a backup stands for; null for a path that none has. */
export function kindOfPath(path: string): 'database' | 'file' | null {
  if (WRITTEN.has(path)) return 'file';
  const [top = '', second = '', ...rest] = path.split('/');
  if (top === 'journal')
    return isAppId(second.replace(/\.json$/, '')) && second.endsWith('.json') && rest.length === 0 ? 'file' : null;
  if (top === 'apps') return isAppId(second) ? kindIn(APP, rest, second) : null;
  if (top !== 'code-store') return kindIn(GATEWAY, path.split('/'), '');
  if (second === 'worktrees') return kindIn(WORKTREES, rest, '');
  return second === 'apps.git' ? kindIn(REPOSITORY, rest, '') : null;
}

function kindIn(parts: Parts, [name = '', ...below]: string[], app: string): 'database' | 'file' | null {
  const part = parts.get(name);
  if (part === 'database' || part === 'file') return below.length === 0 ? part : null;
  if (part === undefined || below.length === 0 || !below.every(isSafeSegment)) return null;
  const [first = '', ...rest] = below;
  if (part === 'tree') return 'file';
  if ('files' in part) return rest.length === 0 && part.files.test(first) ? 'file' : null;
  return rest.length > 0 && part.trees(first, app) ? 'file' : null;
}

/** What an uploaded file may be called, and never another folder. */
function isSafeSegment(segment: string): boolean {
  return segment !== '' && segment !== '.' && segment !== '..' && !/[\\\0\ufffd]/.test(segment);
}
