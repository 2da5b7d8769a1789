/**
 * Shapes of HTTP answers that the routes give and the CLI reads (specification, "Conventions of HTTP"). Times in milliseconds
 * since the epoch.
 */
import type {
  MintedSecretWebhook,
  NewWebhook,
  ProvisionedWebhook,
  Trigger,
  VerifiedWebhook,
} from './automations/automation.ts';
import type { RunRecord } from './automations/runs.ts';
import type { ErrorBody, InputIssue } from './errors.ts';

/** `queries`, `actions` and `automations` are counts. */
export type AppRecord = {
  id: string;
  name: string;
  version: string;
  description?: string;
  kind: 'app' | 'automation';
  backend: 'tarball' | 'git';
  /** `quarantined` comes from the supervisor's actors and is added to this. */
  status: 'active' | 'no_active_version' | 'quarantined' | 'damaged';
  /** What is wrong with its data and what to do; absent where nothing is known. */
  damage?: string;
  activeVersion: string | null;
  registeredAt: number;
  updatedAt: number;
  queries: number;
  actions: number;
  automations: number;
  /** What visitors may use without a token, such as `page` and `action send`; absent when there is nothing. */
  public?: string[];
  /** It has a picture, at `GET /svc/_apps/:id/icon`; absent where its letter stands for it. */
  icon?: true;
};

/** A removed app that is kept until `keptUntil`, or a day longer. `name` and `version` are those of the version that was live. */
export type TrashRow = {
  /** `<app>-<removedAt>`. */
  id: string;
  app: string;
  name: string;
  version: string;
  removedAt: number;
  keptUntil: number;
  bytes: number;
};

/**
 * One minute that began at `at`; the last one is still running. `calls` ended in it: `refused` of them with a status below 500,
 * `failed` with another error, `kept` answered with a kept result. `p50` and `p99` are milliseconds, waiting included,
 * estimated from the buckets of the metrics; null where nothing ran. `dataBytes`, null without a database, and `subscribers`
 * are the values at its end.
 */
export type ActivityPoint = {
  at: number;
  calls: number;
  refused: number;
  failed: number;
  kept: number;
  p50: number | null;
  p99: number | null;
  dataBytes: number | null;
  subscribers: number;
};

/** How an app is and what it did in the last hour, `GET /svc/_apps/:id/activity`. `reason` is why it is quarantined. */
export type ActivityAnswer = {
  id: string;
  state: string;
  reason: string | null;
  lastExit: string | null;
  restarts: number;
  everyMs: number;
  points: ActivityPoint[];
  files: { files: number; bytes: number; quota: number };
};

export type VersionRecord = {
  versionId: string;
  active: boolean;
  sha256: string;
  version: string;
  uploadedAt: number;
  files: number;
  bytes: number;
  /** What was said of it when it was published; absent when nothing was. */
  message?: string;
  /** The name of the person or program that published it, where it is known. */
  by?: string;
  /** On the git store. */
  commit?: string;
};

/** The version that was live until now; `publishedAt` is its `uploadedAt`. */
export type Replaced = { versionId: string; publishedAt: number; by?: string };

export type UploadAnswer = {
  id: string;
  versionId: string;
  activeVersion: string | null;
  sha256: string;
  files: number;
  bytes: number;
  deduplicated: boolean;
  /** Absent when no other version was live, and when this one did not become live. */
  replaced?: Replaced;
  migrationsApplied: number[];
  pruned: string[];
  /** The manifest's list of hosts, where it has one. */
  network?: string[];
  /** The apps whose tools its pages may call, where it names some. */
  uses?: string[];
  /** As in `AppRecord`. */
  public?: string[];
  /** An icon that cannot be drawn, and what publishing would refuse the handlers for, on the tarball store; absent when there is nothing. */
  warnings?: InputIssue[];
  /** Webhooks that were minted, with their secrets, which appear only here. */
  webhooks: NewWebhook[];
};

/**
 * A trigger in answers: without `secretHash`, with `url` to post to. `problem` says why a webhook refuses every request, and
 * what to do.
 */
export type ShownTrigger =
  | Exclude<Trigger, ProvisionedWebhook>
  | ((Omit<MintedSecretWebhook, 'secretHash'> | VerifiedWebhook) & { url: string; problem?: string });

/** Without input and output, which would make a list of many automations large; `GET /svc/_runs/<runId>` has them. */
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

/** The fires of the next days: of each automation its first ones; `more` says that there are others. */
export type UpcomingAnswer = {
  rows: { ref: string; app: string; id: string; name: string; fires: number[]; more: boolean }[];
  more: boolean;
};

/** A template in the catalog; the last three members are counts. */
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

/** A test of an app that has ended. `file` is absolute, or relative to the app in answers; `error` is the error of the test, as text. */
export type TestResult = {
  name: string;
  file: string | null;
  line: number | null;
  state: 'passed' | 'failed' | 'skipped';
  ms: number;
  error?: string;
};

/** The tests of a draft, `POST /svc/_sessions/:sid/apps/:id/tests`. `error` says why none ran, or why they were ended. */
export type AppTests = { app: string; passed: boolean; tests: TestResult[]; error?: ErrorBody };
