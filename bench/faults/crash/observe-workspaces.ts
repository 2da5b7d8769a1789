/** What is there of workspaces on the git store: their apps, files, changes and drafts, as their author sees them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { draftKey } from '../../../protocol/ids.ts';
import { namesInSync } from '../../../storage/files/atomic-file.ts';
import { reading, unsound } from '../../../testing/databases.ts';
import { git } from '../stored.ts';
import { get, type World } from './world.ts';

type WorkspaceView = Awaited<ReturnType<typeof lookAt>>;
type Row = { sessionId: string; base: string; apps: string[] };
type Change = { app: string; path: string; status: string; additions: number; deletions: number };

/** Ids that the gateway chose. */
const CHOSEN = /^s[0-9a-f]{16}$/;

/** Sorted by id. Two alike under ids that the gateway chose count once: the request was made twice. */
export async function lookAtWorkspaces(world: World): Promise<WorkspaceView[]> {
  if (world.layout.codeStore === null) return [];
  const rows = (await get(world, '/svc/_sessions')) as Row[];
  const main = checkBranches(world, rows);
  const views = new Map<string, WorkspaceView>();
  for (const row of rows) {
    const view = await lookAt(world, row, main);
    views.set(JSON.stringify(view), view);
  }
  return [...views.values()];
}

/** Each workspace has its branch, at its base, and no other has one. Answers the commit of main. */
function checkBranches({ layout }: World, rows: Row[]): string {
  const { repository } = layout.codeStore as { repository: string };
  const branches = git(
    repository,
    'for-each-ref',
    '--format=%(refname:lstrip=3) %(objectname)',
    'refs/heads/sessions/',
  ).trim();
  const expected = rows.map(({ sessionId, base }) => `${sessionId} ${base}`).join('\n');
  if (branches !== expected) throw new Error(`The branches are "${branches}", the workspaces "${expected}".`);
  return git(repository, 'rev-parse', 'main').trim();
}

async function lookAt(world: World, { sessionId, base, apps }: Row, main: string) {
  const path = `/svc/_sessions/${sessionId}`;
  const { files } = (await get(world, `${path}/diff`)) as { files: Change[] };
  // Those that differ from main, or have a draft.
  const seen = [];
  for (const id of apps) {
    const draft = await lookAtDraft(world, sessionId, id);
    // One that was taken in and is as main has it is not to be told from one that was not.
    if (draft === null && !files.some(({ app }) => app === id)) continue;
    seen.push({ id, files: await filesOf(world, `${path}/apps/${id}/files`), draft });
  }
  return {
    id: CHOSEN.test(sessionId) ? 'chosen' : sessionId,
    // It was opened at, or has published, what is on main now.
    current: base === main,
    apps: seen,
    changes: files.map((one) => `${one.app}/${one.path} ${one.status} +${one.additions} -${one.deletions}`),
  };
}

/** Path and content. Of automations what stays the same: their addresses and times are others each time. */
async function filesOf(world: World, path: string): Promise<string[]> {
  const files = (await get(world, path)) as { path: string; sha: string }[];
  const views: string[] = [];
  for (const file of files) {
    const isAutomation = file.path.endsWith('/automation.json');
    views.push(`${file.path} ${isAutomation ? told(await get(world, `${path}/${file.path}`)) : file.sha}`);
  }
  return views;
}

function told(automation: unknown): string {
  return JSON.stringify(automation)
    .replaceAll(/"at":"[^"]*"/g, '"at":"…"')
    .replaceAll(/"(id|secretHash|hash)":"[^"]*"/g, '"$1":"…"');
}

/** Null until it was called: looking at it would make it. What a crash left of making it is made good by looking. */
async function lookAtDraft(world: World, workspace: string, app: string) {
  const paths = world.layout.app(draftKey(workspace, app));
  if (!existsSync(paths.dir)) return null;
  const read = async (query: string, input: object) => {
    const body = { app, query, input };
    const { status, text, json } = await world.gateway.call('POST', `/svc/_draft/${workspace}/_tool/svc_read`, {
      body,
    });
    if (status !== 200) throw new Error(`The draft of ${app}/${query} answers ${status} ${text}`);
    return json as unknown;
  };
  const which = await read('which', {});
  // Rows that were written to the draft alone.
  const drafted = (await read('get', { key: 'drafted' })) as unknown[];
  const { settings } = (await get(world, `/svc/_draft/${workspace}/_apps/${app}/settings`)) as { settings: unknown };
  const { userVersion } = lookAtData(paths.data);
  return { which, userVersion, drafted: drafted.length, settings };
}

/** Throws when the database is not sound. */
export function lookAtData(path: string): { userVersion: number; tables: string[] } {
  const [fault] = unsound(path);
  if (fault !== undefined) throw new Error(fault);
  const sql = `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`;
  return reading(path, (db) => ({
    userVersion: Number(db.pragma('user_version', { simple: true })),
    tables: db.prepare(sql).pluck().all() as string[],
  }));
}

/** Folders that are neither a workspace's nor a draft's of one, and apps that no record names. */
export function leftOfWorkspaces({ layout }: World): string[] {
  const { codeStore } = layout;
  if (codeStore === null) return [];
  const found: string[] = [];
  const open = namesInSync(codeStore.workspacesDir).filter((name) => existsSync(codeStore.workspace(name).record));
  for (const name of namesInSync(codeStore.workspacesDir)) {
    if (!open.includes(name)) found.push(join(codeStore.workspacesDir, name));
  }
  for (const id of open) {
    const { appsDir, record } = codeStore.workspace(id);
    const { apps } = JSON.parse(readFileSync(record, 'utf8')) as { apps: object };
    for (const app of namesInSync(appsDir))
      if (!(app in apps)) found.push(`${join(appsDir, app)}, which its record does not name`);
  }
  for (const id of namesInSync(layout.drafts(''))) if (!open.includes(id)) found.push(layout.drafts(id));
  return found;
}
