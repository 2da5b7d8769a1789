/** Gives the tests of a file one Chromium, and says why they are skipped without it. */
import { after } from 'node:test';
import type { Browser } from 'playwright-core';
import { findChromium, startChromium } from '../../testing/chromium.ts';

/** Why browser tests are skipped here, or false. A continuous integration run never skips them: there they fail. */
export function withoutChromium(): string | false {
  if (findChromium() || process.env.CI === 'true') return false;
  return 'No Chromium here: install one, or name it in the environment variable CHROMIUM.';
}

let shared: Promise<Browser> | undefined;

/** One for all tests of a file, from the first that asks for it on; it ends with the file. */
export function sharedChromium(): Promise<Browser> {
  shared ??= startChromium();
  return shared;
}

after(async () => {
  await (await shared)?.close();
});
