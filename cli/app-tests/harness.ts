/** The module that tests of an app import as `svc/test` (`dist/test.js`). */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { TestClock, timeOf } from './clock.ts';
import { Outside } from './outside.ts';
import { type Prepared, startParts } from './parts.ts';
import { TestApp } from './test-app.ts';

export { AppError } from './app-error.ts';
export type { TestApp };

/** A test of node:test, or `{ after }` of it for all tests of a file. */
export type Test = { after(cleanup: () => Promise<void>): void; diagnostic?(message: string): void };

export type HarnessOptions = {
  /** The time at the start (default: now). */
  now?: number | string | Date;
};

/** The app with separate data, until the test ends. */
export async function harness(t: Test, { now = Date.now() }: HarnessOptions = {}): Promise<TestApp> {
  const place = await openPlace(timeOf(now));
  place.unanswered = ({ method, url }) =>
    t.diagnostic?.(`The test has no answer for ctx.fetch of ${method} ${url}: give it one with app.onFetch.`);
  // The next test does not wait until this one is cleaned up.
  t.after(async () => void closing.push(place.close()));
  return place.app;
}

/** The app and gateway of one test. */
type Place = { app: TestApp; unanswered(request: Request): void; close(): Promise<void> };

const closing: Promise<void>[] = [];

after(() => Promise.all(closing));

async function openPlace(now: number): Promise<Place> {
  const prepared = preparedApp();
  const clock = new TestClock(now);
  const folder = mkdtempSync(join(dirname(prepared.dataDir), 't-'));
  const dataDir = join(folder, 'data');
  cpSync(prepared.dataDir, dataDir, { recursive: true });
  const outside = new Outside(folder, (request) => place.unanswered(request));
  const parts = await startParts(dataDir, {
    clock,
    relay: outside.relay,
    notified: (notice) => outside.notices.push(notice),
  });
  const app = new TestApp(parts, prepared, clock, outside, folder);
  const close = async (): Promise<void> => {
    await parts.end(0);
    app.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  const place: Place = { app, unanswered: () => {}, close };
  return place;
}

function preparedApp(): Prepared {
  const prepared = process.env.SVC_TEST;
  if (prepared === undefined) throw new Error('Run the tests of an app with: svc test <dir>');
  return JSON.parse(prepared) as Prepared;
}
