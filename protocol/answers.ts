/**
 * Shapes of HTTP answers that the routes give and the CLI reads (specification, "Conventions of HTTP"). Times in milliseconds
 * since the epoch.
 */
import type { MintedSecretWebhook, ProvisionedWebhook, Trigger, VerifiedWebhook } from './automations/automation.ts';
import type { RunRecord } from './automations/runs.ts';
import type { ErrorBody } from './errors.ts';
import type { ACTIVITY, ACTIVITY_POINT, APP } from './routes/apps.ts';
import type { TEMPLATE } from './routes/new-apps.ts';
import type { UPLOAD } from './routes/publications.ts';
import type { TRASHED } from './routes/trash.ts';
import type { VERSION } from './routes/versions.ts';
import type { Of } from './shapes/schema.ts';

export type AppRecord = Of<typeof APP>;
export type TrashRow = Of<typeof TRASHED>;
export type ActivityPoint = Of<typeof ACTIVITY_POINT>;
export type ActivityAnswer = Of<typeof ACTIVITY>;
export type VersionRecord = Of<typeof VERSION>;
export type UploadAnswer = Of<typeof UPLOAD>;
/** The version that was live until now; `publishedAt` is its `uploadedAt`. */
export type Replaced = NonNullable<UploadAnswer['replaced']>;

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

export type TemplateRow = Of<typeof TEMPLATE>;

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
