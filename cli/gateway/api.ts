/** The gateway's routes as commands use them: paths, the shapes of answers (decisions, sections 1 to 5), and whole lists. */
import type { AppRecord, AutomationRow, TrashRow } from '../../protocol/answers.ts';
import type { AutomationManifest, NewWebhook } from '../../protocol/automations/automation.ts';
import type { InputIssue } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { BlobPage } from '../../storage/blobs.ts';
import type { SessionRow } from '../../supervisor/authoring/sessions.ts';
import type { AutomationFault } from '../../supervisor/automations/catalog.ts';
import type { ProgramTokenRow } from '../../supervisor/http/access/program-tokens.ts';
import type { Client } from './client.ts';
import { checkPages, listed } from './received.ts';

/** A path whose values are encoded: route`/svc/_apps/${id}/versions`. Of a value with slashes pass the parts. */
export function route(texts: TemplateStringsArray, ...values: (string | string[])[]): string {
  return String.raw({ raw: texts }, ...values.map((value) => [value].flat().map(encodeURIComponent).join('/')));
}

/** The path with the parameters that have a value. */
export function withQuery(path: string, parameters: Record<string, string | number | undefined>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? path : `${path}?${given}`;
}

/** `ref` is `<app>/<automation>`. */
export function automationPath(ref: string, rest = ''): string {
  return route`/svc/_automations/${ref.split('/')}` + rest;
}

/** The files of an app in a session, or one of them. */
export function filesPath(session: string, app: string, file?: string): string {
  const all = route`/svc/_sessions/${session}/apps/${app}/files`;
  return file === undefined ? all : all + route`/${file.split('/')}`;
}

/** Every registered app, sorted by id. */
export function allApps(client: Client, timeoutMs?: number): Promise<AppRecord[]> {
  return allRows((last) => client.get(withQuery('/svc/_apps', { after: last?.id }), timeoutMs));
}

/** All open sessions, newest first. */
export function allSessions(client: Client, timeoutMs?: number): Promise<SessionRow[]> {
  return allRows((last) => {
    const page = { limit: LIMITS.listRowsMax, before: last?.sessionId };
    return client.get(withQuery('/svc/_sessions', page), timeoutMs);
  });
}

/** The open session of this id. */
export async function findRow(client: Client, id: string): Promise<SessionRow | undefined> {
  return (await allSessions(client)).find(({ sessionId }) => sessionId === id);
}

/** A session as people read it: its id, and its name if it has another. */
export function shownSession({ sessionId, name }: { sessionId: string; name?: string }): string {
  return name === undefined || name === sessionId ? sessionId : `${sessionId} (${name})`;
}

/** Every removed app that is kept, newest first. */
export function allTrash(client: Client): Promise<TrashRow[]> {
  return allRows((last) => client.get(withQuery('/svc/_trash', { limit: LIMITS.listRowsMax, before: last?.id })));
}

/** All tokens for programs, newest first. */
export function allTokens(client: Client): Promise<ProgramTokenRow[]> {
  return allRows((last) => client.get(withQuery('/svc/_tokens', { limit: LIMITS.listRowsMax, before: last?.id })));
}

/** Every automation, of one app when it is given, sorted by ref. */
export async function allAutomations(client: Client, app?: string): Promise<AutomationList> {
  let page: AutomationList | undefined;
  const rows = await allRows<AutomationRow>(async (last) => {
    page = await client.get<AutomationList>(withQuery('/svc/_automations', { app, after: last?.ref }));
    return page.rows;
  });
  return { ...(page as AutomationList), rows };
}

/** Reads a list page by page; `read` gets the last row of the page before. */
export async function allRows<T>(read: (last: T | undefined) => Promise<T[]>): Promise<T[]> {
  let rows: T[] = [];
  for (let pages = 1; ; pages++) {
    checkPages(pages);
    const page = listed(await read(rows.at(-1))) as T[];
    rows = rows.concat(page);
    if (page.length < LIMITS.listRowsMax) return rows;
  }
}

/** A page of the files that an app keeps; `usage` is of all of them, in bytes. */
export type FileList = BlobPage & { usage: { files: number; bytes: number; quota: number } };

/** The answer to creating an app; with `publish`, also the version. */
export type StagedAnswer = {
  app: string;
  sessionId: string | null;
  staged: boolean;
  tag?: string;
  webhooks: NewWebhook[];
};

export type ToolAnswer<T> = { isError: false; data: T };
/** `svc_describe` without and with `app`. */
export type AppSummary =
  | (Pick<Manifest, 'name' | 'version' | 'description' | 'queries' | 'actions'> & { app: string })
  | { app: string; error: { code: string; message: string } };
export type DescribedApp = Manifest & { app: string; mcpApp?: DescribedPage };
/** The page in hosts of MCP Apps; absent for an app without one. */
export type DescribedPage = { tool: string } | { faults: InputIssue[] };

/** A row of the windows of an app (decisions, section 8). */
export type ChatWindow = {
  windowId: string;
  mode: string;
  title: string;
  turns: number;
  adapter: string | null;
  createdAt: number;
  updatedAt: number;
};

export type SqlAnswer =
  | { columns: string[]; rows: unknown[]; truncated: boolean }
  | { changes: number; lastInsertRowid: number | string };

export type AutomationList = {
  rows: AutomationRow[];
  total: number;
  errors: AutomationFault[];
};
export type DescribedAutomation = AutomationRow & { manifest: AutomationManifest };
