/** Finds and starts the machine's Chromium. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';

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

/**
 * Gives a page's browser a device that makes passkeys, and has its user agree to each. It has one already of `host`, where that is
 * given.
 */
export async function addAuthenticator(page: Page, host?: string): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const agrees = { isUserVerified: true, automaticPresenceSimulation: true };
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, ...agrees },
  });
  if (host === undefined) return;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const credential = {
    credentialId: randomBytes(16).toString('base64'),
    isResidentCredential: true,
    rpId: host,
    privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
    userHandle: randomBytes(16).toString('base64'),
    signCount: 1,
  };
  await devtools.send('WebAuthn.addCredential', { authenticatorId, credential });
}
