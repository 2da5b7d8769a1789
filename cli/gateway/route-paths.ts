/** Paths of routes, and shapes of answers, that commands write by hand (docs/http-api.md). */
import type { AutomationRow } from '../../protocol/answer-types.ts';
import type { AutomationManifest, NewWebhook } from '../../protocol/automations/automation.ts';
import type { InputIssue } from '../../protocol/errors.ts';
import { route } from '../../protocol/http/addresses.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { BlobPage } from '../../storage/blob-files.ts';
import type { AutomationFault } from '../../supervisor/automations/catalog.ts';
import type { Client } from './client.ts';

/** `ref` is `<app>/<automation>`. */
export function automationPath(ref: string, rest = ''): string {
  return route`/svc/_automations/${ref.split('/')}` + rest;
}

/** The files of an app in a session, or one of them. */
export function filesPath(session: string, app: string, file?: string): string {
  const all = route`/svc/_sessions/${session}/apps/${app}/files`;
  return file === undefined ? all : all + route`/${file.split('/')}`;
}

/** A session as people read it: its id, and its name if it has another. */
export function shownSession({ sessionId, name }: { sessionId: string; name?: string }): string {
  return name === undefined || name === sessionId ? sessionId : `${sessionId} (${name})`;
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

/** An app with its queries and actions. */
export async function describeApp(client: Client, app: string): Promise<DescribedApp> {
  return (await client.post<ToolAnswer<DescribedApp>>('/svc/_tool/svc_describe', { app })).data;
}

export type ToolAnswer<T> = { isError: false; data: T };
/** `svc_describe` without and with `app`. */
export type AppSummary =
  | (Pick<Manifest, 'name' | 'version' | 'description' | 'queries' | 'actions'> & { app: string })
  | { app: string; error: { code: string; message: string } };
export type DescribedApp = Manifest & { app: string; mcpApp?: DescribedPage };
/** The page in hosts of MCP Apps; absent for an app without one. */
export type DescribedPage = { tool: string } | { faults: InputIssue[] };

/** A row of the windows of an app (specification, "Chat windows"). */
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
