/** The gateway's routes as commands use them: paths, the shapes of answers (docs/http-api.md), and whole lists. */
import type { AutomationRow } from '../../protocol/answers.ts';
import type { AutomationManifest, NewWebhook } from '../../protocol/automations/automation.ts';
import type { InputIssue } from '../../protocol/errors.ts';
import { allRows } from '../../protocol/http/client.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { BlobPage } from '../../storage/blobs.ts';
import type { AutomationFault } from '../../supervisor/automations/catalog.ts';
import type { Client } from './client.ts';
import { checkPages, listed } from './received.ts';

/** A path whose values are encoded: route`/svc/_apps/${id}/versions`. Of a value with slashes pass the parts. */
export function route(texts: TemplateStringsArray, ...values: (string | string[])[]): string {
  return String.raw({ raw: texts }, ...values.map((value) => [value].flat().map(encodeURIComponent).join('/')));
}

/** Parameters of an address by their names. */
export type Query = Record<string, string | number | undefined>;

/** The path with the parameters that have a value. */
export function withQuery(path: string, parameters: Query): string {
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

/** A session as people read it: its id, and its name if it has another. */
export function shownSession({ sessionId, name }: { sessionId: string; name?: string }): string {
  return name === undefined || name === sessionId ? sessionId : `${sessionId} (${name})`;
}

/** As `allRows`; throws for what no gateway sends. */
export function allListed<Row>(read: (last: Row | undefined) => Promise<Row[]>): Promise<Row[]> {
  let pages = 0;
  return allRows(async (last: Row | undefined) => {
    checkPages(++pages);
    return listed(await read(last)) as Row[];
  });
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
