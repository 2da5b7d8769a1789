/** Shapes of HTTP answers that the routes give and the CLI reads (decisions, sections 2 and 6). Times in milliseconds since the epoch. */
import type { MintedSecretWebhook, NewWebhook, ProvisionedWebhook, Trigger, VerifiedWebhook } from './automation.ts';
import type { InputIssue } from './errors.ts';
import type { RunRecord } from './runs.ts';

/** `queries`, `actions` and `automations` are counts. */
export type AppRecord = {
  id: string;
  name: string;
  version: string;
  description?: string;
  kind: 'app' | 'automation';
  backend: 'tarball' | 'git';
  /** `quarantined` is known to whoever runs the actors, and laid over this. */
  status: 'active' | 'no_active_version' | 'quarantined';
  activeVersion: string | null;
  registeredAt: number;
  updatedAt: number;
  queries: number;
  actions: number;
  automations: number;
  /** What visitors may use without a token, such as `page` and `action send`, where there is something. */
  public?: string[];
};

export type VersionRecord = {
  versionId: string;
  active: boolean;
  sha256: string;
  version: string;
  uploadedAt: number;
  files: number;
  bytes: number;
};

export type UploadAnswer = {
  id: string;
  versionId: string;
  activeVersion: string | null;
  sha256: string;
  files: number;
  bytes: number;
  deduplicated: boolean;
  migrationsApplied: number[];
  pruned: string[];
  /** The manifest's list of hosts, where it has one. */
  network?: string[];
  /** The apps whose tools its pages may call, where it names some. */
  uses?: string[];
  /** As in `AppRecord`. */
  public?: string[];
  /** What publishing would refuse the handlers for, on the tarball store; absent when there is nothing. */
  warnings?: InputIssue[];
  /** Those that were minted, with their secrets: nothing else ever says them. */
  webhooks: NewWebhook[];
};

/**
 * A trigger as it is answered: `secretHash` never leaves, and `url` is where to post. `problem` says why a webhook refuses every
 * request, and what to do.
 */
export type ShownTrigger =
  | Exclude<Trigger, ProvisionedWebhook>
  | ((Omit<MintedSecretWebhook, 'secretHash'> | VerifiedWebhook) & { url: string; problem?: string });

/** A list of many automations would be large with what went in and came out; `GET /svc/_runs/<runId>` has it. */
export type ShownRun = Omit<RunRecord, 'input' | 'output'>;

/** One automation. */
export type AutomationRow = {
  ref: string;
  app: string;
  id: string;
  name: string;
  description?: string;
  enabled: boolean;
  triggers: ShownTrigger[];
  nextRunAt?: number;
  lastRun?: ShownRun;
};

/** What the catalog says of a template; the last three are counts. */
export type TemplateRow = {
  id: string;
  name: string;
  description: string;
  version: string;
  source: 'bundled' | 'remote';
  queries: number;
  actions: number;
  automations: number;
};

/** An entry of a remote catalog: a gzipped tar archive of the app, and the SHA-256 of its bytes in hex. */
export type RemoteTemplate = TemplateRow & { source: 'remote'; url: string; sha256: string };
