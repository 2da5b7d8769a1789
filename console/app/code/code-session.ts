/** Asks for the files of an app: those of a version, and those of a draft, which can be changed (specification, "Sessions"). */
import type { NewWebhook } from '../../../protocol/automations/automation.ts';
import { route } from '../../../protocol/http/addresses.ts';
import type { GitFile } from '../../../protocol/wire/git-jobs.ts';
import type { DraftCheck } from '../../../supervisor/authoring/draft-check.ts';
import type { SessionRow } from '../../../supervisor/authoring/sessions.ts';
import { type GatewayError, get, post, put, request } from '../../gateway.ts';
import type { DraftDiff } from './changes.tsx';
import type { Finding } from './editor.tsx';

/** What a publication answers. */
export type Published = { id: string; tag: string; migrationsApplied: number[]; webhooks: NewWebhook[] };

/** Where files are: of a version, or of the draft in a session. */
export type Source = { app: string; version: string; session: null } | { app: string; version: null; session: string };

export const keyOf = ({ app, version, session }: Source): string => `${app} ${session ?? version}`;

const listOf = ({ app, version, session }: Source): string =>
  session === null
    ? route`/svc/_apps/${app}/versions/${version}/files`
    : route`/svc/_sessions/${session}/apps/${app}/files`;

/** `a/b.js` in an address: its parts are encoded, its slashes are not. */
const fileAt = (source: Source, file: string): string =>
  `${listOf(source)}/${file.split('/').map(encodeURIComponent).join('/')}`;

/** Drafts of this app, the one that was used last first. */
export async function readSessions(app: string): Promise<SessionRow[]> {
  const rows = await get<SessionRow[]>('/svc/_sessions?limit=500');
  return rows.filter(({ apps }) => apps.includes(app)).sort((a, b) => b.touchedAt - a.touchedAt);
}

export const listFiles = (source: Source): Promise<GitFile[]> => get(listOf(source));

/** `text` is null for a file that is none. */
export async function readFile(source: Source, file: string): Promise<{ text: string | null; sha: string }> {
  const response = await request(fileAt(source, file));
  const sha = (response.headers.get('etag') ?? '').replaceAll('"', '');
  const bytes = await response.arrayBuffer();
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return { text: text.includes('\0') ? null : text, sha };
  } catch {
    return { text: null, sha };
  }
}

/** Rejects with `PRECONDITION_FAILED` when the file is not the one named any more; with null only a new one is written. */
export const writeFile = (source: Source, file: string, content: string | Blob, sha: string | null): Promise<GitFile> =>
  put(fileAt(source, file), new Blob([content]), {
    headers: sha === null ? { 'if-none-match': '*' } : { 'if-match': `"${sha}"` },
  });

export async function deleteFile(source: Source, file: string, sha: string): Promise<void> {
  await request(fileAt(source, file), { method: 'DELETE', headers: { 'if-match': `"${sha}"` } });
}

/** Under another name, with the content that it has. */
export async function renameFile(source: Source, file: string, to: string, sha: string): Promise<void> {
  const bytes = await (await request(fileAt(source, file))).blob();
  await writeFile(source, to, bytes, null);
  await deleteFile(source, file, sha);
}

/** Where the files of a draft are on the gateway's machine; null when this browser runs on another one. */
export async function readFolder(app: string, session: string): Promise<string | null> {
  return (await get<{ folder: string | null }>(route`/svc/_sessions/${session}/apps/${app}/folder`)).folder;
}

export const readDiff = (app: string, session: string): Promise<DraftDiff> =>
  get(`${route`/svc/_sessions/${session}/diff`}?app=${encodeURIComponent(app)}`);

/** What keeps the draft from running as its files are now, and from being published, and what is probably mistyped. */
export async function checkDraft(app: string, session: string): Promise<Finding[]> {
  const { findings, warnings } = await post<DraftCheck>(route`/svc/_sessions/${session}/apps/${app}/check`);
  const found = findings.flatMap(({ code, ...issue }) => findingsOf({ code, message: issue.message, issues: [issue] }));
  const warned = warnings.flatMap((issue) => findingsOf({ code: '', message: issue.message, issues: [issue] }));
  return [...found, ...warned.map((one) => ({ ...one, isWarning: true as const }))];
}

const FILE = /^(?:[^/:\s]+\/)*[^/:\s]+\.[a-z0-9]+/;
/** Codes whose `route` is a member of this file. */
const FILES: Record<string, string> = { INVALID_MANIFEST: 'app.json' };

/** What the gates found, each in its file. `route` is a file, or a member of the one that the code is about. */
type Fault = Pick<GatewayError, 'code' | 'message' | 'issues'> & { path?: string | undefined };

export function findingsOf({ code, message, path: place = '', issues }: Fault): Finding[] {
  const all = issues.length > 0 ? issues : [{ path: place, message }];
  return all.map((issue) => {
    const [file = FILES[code] ?? ''] = FILE.exec(issue.path) ?? [];
    const { line, column } = issue as { line?: number; column?: number };
    const member = FILE.test(issue.path) || issue.path === '' ? '' : `${issue.path}: `;
    return { file, message: `${member}${issue.message}`, ...(line && { line }), ...(column && { column }) };
  });
}
