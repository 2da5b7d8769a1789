/** Finds and starts the machine's Chromium. */
import { existsSync } from 'node:fs';
import { after } from 'node:test';
import { type Browser, chromium } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** `CHROMIUM`, or the first that is installed. */
export function findChromium(): string | undefined {
  const named = process.env.CHROMIUM;
  return named || PLACES.find((path) => existsSync(path));
}

/** Why browser tests are skipped here, or false. A continuous integration run never skips them: there they fail. */
export function withoutChromium(): string | false {
  if (findChromium() || process.env.CI === 'true') return false;
  return 'No Chromium here: install one, or name it in the environment variable CHROMIUM.';
}

export async function startChromium(): Promise<Browser> {
  const executablePath = findChromium();
  if (!executablePath) throw new Error('There is no Chromium; name it in the environment variable CHROMIUM.');
  return chromium.launch({ executablePath, args: ['--no-sandbox'] });
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
