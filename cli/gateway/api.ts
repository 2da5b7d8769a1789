/** The answers of the gateway that commands read (decisions, sections 1 to 5). Times in milliseconds since the epoch. */
import type { AutomationRow } from '../../protocol/answers.ts';
import type { AutomationManifest, MintedWebhook } from '../../protocol/automation.ts';
import type { Manifest } from '../../protocol/manifest.ts';

/** What a browser's origin is; of `console` null where there is none that it could reach. */
export type SessionRecord = {
  signedIn: boolean;
  place: 'console' | 'app' | 'draft' | 'shared' | 'loopback';
  console: string | null;
};

/** An address that signs a browser in, once. */
export type SignInLink = { url: string; expiresAt: number };

/** `migrationsAhead`: what the data has had and the version does not know. */
export type ActivateAnswer = {
  id: string;
  activeVersion: string;
  previousVersion: string | null;
  migrationsAhead?: number[];
  webhooks?: MintedWebhook[];
};

/** A token for a program; `apps` null is every app, `expiresAt` null never. */
export type TokenRow = {
  id: string;
  name: string;
  apps: string[] | null;
  tools: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
};
/** One that was made just now: the only time that its text is seen. */
export type NewToken = TokenRow & { token: string };

/** `damaged` says what is wrong with one whose record cannot be read. */
export type SessionRow = {
  sessionId: string;
  base: string | null;
  createdAt: number | null;
  touchedAt: number;
  apps: string[];
  damaged?: string;
};
export type TemplateRow = { id: string; name: string; description?: string };
export type SessionFile = { path: string; size: number; sha: string };
export type FileDiff = {
  app: string;
  path: string;
  status: 'added' | 'modified' | 'deleted';
  additions: number;
  deletions: number;
  patch: string;
  binary?: true;
  truncated?: true;
};
type ListChange = { app: string; before: string[] | null; after: string[] | null };

/** `network` and `uses`: apps whose list of hosts, or of other apps, is another one; null where there is none. */
export type SessionDiff = {
  base: string;
  head: string;
  files: FileDiff[];
  behind: string[];
  network?: ListChange[];
  uses?: ListChange[];
};

/** Paths of the app's files: taken from what was published, and changed by both sides. */
export type UpdateAnswer = { base: string; merged: string[]; conflicts: string[] };

export type PublishAnswer = {
  id: string;
  version: number;
  tag: string;
  sha: string;
  migrationsApplied: number[];
  network?: string[];
  uses?: string[];
  webhooks: MintedWebhook[];
};
/** What making an app answers; with `publish`, also the version. */
export type StagedAnswer = {
  app: string;
  sessionId: string | null;
  staged: boolean;
  tag?: string;
  webhooks: MintedWebhook[];
};

/** `svc_describe` without and with `app`. */
export type AppSummary =
  | {
      app: string;
      name: string;
      version: string;
      description?: string;
      queries: { name: string; description?: string }[];
      actions: { name: string; description?: string; confirmation?: string }[];
    }
  | { app: string; error: { code: string; message: string } };
export type DescribedApp = Manifest & { app: string };

export type ToolAnswer<T> = { isError: false; data: T };
export type ActionResult = { status: number; body: unknown };

export type SqlAnswer =
  | { columns: string[]; rows: unknown[]; truncated: boolean }
  | { changes: number; lastInsertRowid: number | string };

/** Lines are the apps' own: only `ts` is sure to be there. */
export type LogEntry = {
  ts: number;
  level?: string;
  app?: string;
  msg?: string;
  /** Null on what no call has logged. */
  tool?: string | null;
  traceId?: string | null;
  [more: string]: unknown;
};

export type ChangeEvent = { app: string; table: string; action: string; source: string; ts: number; seq: number };

export type AutomationList = {
  rows: AutomationRow[];
  errors: { ref: string; code: string; message: string; path?: string }[];
};
export type DescribedAutomation = AutomationRow & { manifest: AutomationManifest };
