/**
 * Shapes of HTTP answers that the routes give and the CLI reads (specification, "Conventions of HTTP"). Times in milliseconds
 * since the epoch.
 */
import type { ACTIVITY, ACTIVITY_POINT, APP } from './routes/apps/apps-rows.ts';
import type { TEMPLATE } from './routes/apps/new-apps-rows.ts';
import type { UPLOAD } from './routes/apps/publications.ts';
import type { TRASHED } from './routes/apps/trash-rows.ts';
import type { VERSION } from './routes/apps/versions-rows.ts';
import type { APP_TEST, APP_TESTS } from './routes/authoring/workspaces-rows.ts';
import type { AUTOMATION, LISTED_RUN, TRIGGER, UPCOMING } from './routes/automations/automations-rows.ts';
import type { Of } from './shapes/schema.ts';

export type AppRecord = Of<typeof APP>;
export type TrashRow = Of<typeof TRASHED>;
export type ActivityPoint = Of<typeof ACTIVITY_POINT>;
export type ActivityAnswer = Of<typeof ACTIVITY>;
export type VersionRecord = Of<typeof VERSION>;
export type UploadAnswer = Of<typeof UPLOAD>;
/** The version that was live until now; `publishedAt` is its `uploadedAt`. */
export type Replaced = NonNullable<UploadAnswer['replaced']>;

/** A trigger in answers. */
export type ShownTrigger = Of<typeof TRIGGER>;
export type ShownRun = Of<typeof LISTED_RUN>;
export type AutomationRow = Of<typeof AUTOMATION>;
export type UpcomingAnswer = Of<typeof UPCOMING>;

export type TemplateRow = Of<typeof TEMPLATE>;

/** An entry of a remote catalog: a gzipped tar archive of the app, and the SHA-256 of its bytes in hex. */
export type RemoteTemplate = TemplateRow & { source: 'remote'; url: string; sha256: string };

/** A test of an app that has ended. `file` is absolute, or relative to the app in answers. */
export type TestResult = Of<typeof APP_TEST>;

/** The tests of a draft, `POST /svc/_sessions/:sid/apps/:id/tests`. */
export type AppTests = Of<typeof APP_TESTS>;
