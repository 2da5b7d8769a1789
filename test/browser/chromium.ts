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

/**
 * One for all tests of a file, from the first that asks for it on; it ends with the file. Its pages are asked not to move, as a user
 * can ask them: each frame is drawn by the processor.
 */
export function sharedChromium(): Promise<Browser> {
  shared ??= start();
  return shared;
}

async function start(): Promise<Browser> {
  const browser = await startChromium();
  const newContext = browser.newContext.bind(browser);
  browser.newContext = (options) => newContext({ reducedMotion: 'reduce', ...options });
  return browser;
}

after(async () => {
  await (await shared)?.close();
});
