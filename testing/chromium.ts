/** Finds and starts the machine's Chromium. */
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** The shell is the same browser without windows, which takes two thirds of the time. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** `CHROMIUM`, or the first that is installed. */
export function findChromium(): string | undefined {
  const named = process.env.CHROMIUM;
  return named || PLACES.find((path) => existsSync(path));
}

export async function startChromium(): Promise<Browser> {
  const executablePath = findChromium();
  if (!executablePath) throw new Error('There is no Chromium; name it in the environment variable CHROMIUM.');
  return chromium.launch({ executablePath, args: ['--no-sandbox'] });
}
