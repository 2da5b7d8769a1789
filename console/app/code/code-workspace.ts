/** Asks for the files of an app: those of a version, and those of a draft, which can be changed (specification, "Workspaces"). */
import { requestOf } from '../../../protocol/http/client.ts';
import type { Received, RowIn, Sent } from '../../../protocol/routes/api.ts';
import { type GatewayError, gateway } from '../../gateway.ts';
import type { DraftDiff } from './changes.tsx';
import type { Finding } from './editor.tsx';

export type WorkspaceRow = RowIn<'GET /svc/_sessions'>;
export type CodeFile = RowIn<'GET /svc/_sessions/:sid/apps/:id/files'>;

/** Where files are: of a version, or of the draft in a workspace. */
export type Source =
  | { app: string; version: string; workspace: null }
  | { app: string; version: null; workspace: string };

export const keyOf = ({ app, version, workspace }: Source): string => `${app} ${workspace ?? version}`;

/** Drafts of this app, the one that was used last first. */
export async function readWorkspaces(app: string): Promise<WorkspaceRow[]> {
  const rows = await gateway.all('GET /svc/_sessions', {}, ({ sessionId }) => ({ before: sessionId }));
  return rows.filter(({ apps }) => apps.includes(app)).sort((a, b) => b.touchedAt - a.touchedAt);
}

export const listFiles = ({ app: id, version, workspace }: Source): Promise<CodeFile[]> =>
  workspace === null
    ? gateway.call('GET /svc/_apps/:id/versions/:versionId/files', { params: { id, versionId: version } })
    : gateway.call('GET /svc/_sessions/:sid/apps/:id/files', { params: { id, sid: workspace } });

/** A file as it is. */
function fetchFile({ app: id, version, workspace }: Source, file: string): Promise<Response> {
  const params = { id, '*': file };
  return gateway.open(
    workspace === null
      ? requestOf('GET /svc/_apps/:id/versions/:versionId/files/*', { params: { ...params, versionId: version } })
      : requestOf('GET /svc/_sessions/:sid/apps/:id/files/*', { params: { ...params, sid: workspace } }),
  );
}

/** `text` is null for a file that is none. */
export async function readFile(source: Source, file: string): Promise<{ text: string | null; sha: string }> {
  const response = await fetchFile(source, file);
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
export function writeFile(draft: Source, file: string, content: string | Blob, sha: string | null): Promise<CodeFile> {
  const sent = { params: placeIn(draft, file), body: new Blob([content]) };
  const headers = sha === null ? { 'if-none-match': '*' } : ifMatch(sha);
  return gateway.call('PUT /svc/_sessions/:sid/apps/:id/files/*', sent, { headers });
}

export async function deleteFile(draft: Source, file: string, sha: string): Promise<void> {
  const params = placeIn(draft, file);
  await gateway.call('DELETE /svc/_sessions/:sid/apps/:id/files/*', { params }, { headers: ifMatch(sha) });
}

/** Only drafts are changed. */
const placeIn = ({ app: id, workspace }: Source, file: string) => ({ id, sid: workspace ?? '', '*': file });

const ifMatch = (sha: string) => ({ 'if-match': `"${sha}"` });

/** Under another name, with the content that it has. */
export async function renameFile(source: Source, file: string, to: string, sha: string): Promise<void> {
  const bytes = await (await fetchFile(source, file)).blob();
  await writeFile(source, to, bytes, null);
  await deleteFile(source, file, sha);
}

/** Where the files of a draft are on the gateway's machine; null when this browser runs on another one. */
export async function readFolder(app: string, workspace: string): Promise<string | null> {
  const params = { id: app, sid: workspace };
  return (await gateway.call('GET /svc/_sessions/:sid/apps/:id/folder', { params })).folder;
}

export const readDiff = (app: string, workspace: string): Promise<DraftDiff> =>
  gateway.call('GET /svc/_sessions/:sid/diff', { params: { sid: workspace }, query: { app } });

/** The id of the workspace of a new draft. */
export async function openDraft(): Promise<string> {
  return (await gateway.call('POST /svc/_sessions')).sessionId;
}

type Publication = Sent<'POST /svc/_sessions/:sid/publish'>['body'];
export const publish = (sid: string, body: Publication): Promise<Received<'POST /svc/_sessions/:sid/publish'>> =>
  gateway.call('POST /svc/_sessions/:sid/publish', { params: { sid }, body });

/** What keeps the draft from running as its files are now, and from being published, and what is probably mistyped. */
export async function checkDraft(app: string, workspace: string): Promise<Finding[]> {
  const params = { id: app, sid: workspace };
  const { findings, warnings } = await gateway.call('POST /svc/_sessions/:sid/apps/:id/check', { params });
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
