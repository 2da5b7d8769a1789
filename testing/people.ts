/** People without a browser: invitations that are taken, and the sessions that come of them. */
import assert from 'node:assert/strict';
import { join as joinPath } from 'node:path';
import { openSqlite } from '../storage/sqlite.ts';
import type { Answer, TestGateway } from './gateway.ts';
import { consoleHost, Origin, sessionOf } from './origins.ts';
import { Ceremony, Device } from './passkeys.ts';

export const PASSWORD = 'correct horse battery';

/** A browser at the console in which nobody is signed in. */
export function visitor(gateway: TestGateway): Origin {
  return new Origin(gateway, consoleHost(gateway), '');
}

/** The code of an invitation, from its link. */
export function codeOf(url: string): string {
  return new URLSearchParams(new URL(url).hash.slice(1)).get('invitation') ?? '';
}

export type Joined = { id: string; origin: Origin };

/**
 * Somebody who took an invitation with a passkey, signed in at the console. `invitation` is its body. With a password it would take a
 * quarter of a second of processor time.
 */
export async function join(gateway: TestGateway, name: string, invitation: object = {}): Promise<Joined> {
  const code = await invite(gateway, name, invitation);
  const ceremony = await Ceremony.begin(visitor(gateway), '/svc/_auth/join/options', { code, name });
  const passkey = new Device().make(ceremony.options, ceremony.origin);
  return joinedBy(gateway, await ceremony.answer('/svc/_auth/join', { code, name, passkey }));
}

/** The same for somebody who signs in with `PASSWORD`. */
export async function joinWithPassword(gateway: TestGateway, name: string, invitation: object = {}): Promise<Joined> {
  const code = await invite(gateway, name, invitation);
  const body = { code, name, password: PASSWORD };
  return joinedBy(gateway, await visitor(gateway).call('POST', '/svc/_auth/join', { body }));
}

async function invite(gateway: TestGateway, name: string, invitation: object): Promise<string> {
  const email = `${name.toLowerCase()}@example.org`;
  const invited = await gateway.call('POST', '/svc/_invitations', { body: { email, ...invitation } });
  assert.equal(invited.status, 201, invited.text);
  return codeOf(invited.json.url);
}

function joinedBy(gateway: TestGateway, answer: Answer): Joined {
  return { id: answer.json.person?.id, origin: sessionOf(gateway, consoleHost(gateway), answer) };
}

/** The answer to somebody who types an e-mail address and a password at the console. */
export function enterPassword(gateway: TestGateway, email: string, password: string = PASSWORD) {
  return visitor(gateway).call('POST', '/svc/_auth/password', { body: { email, password } });
}

/** Somebody without an account who opens a link to an app, in the browser of `home`: at the app's origin. */
export async function openLink(gateway: TestGateway, url: string, home: Origin = visitor(gateway)): Promise<Origin> {
  const way = await home.call('POST', '/svc/_auth/link', { body: { code: guestCodeOf(url) } });
  assert.equal(way.status, 200, way.text);
  const { host } = new URL(way.json.url);
  return sessionOf(gateway, host, await new Origin(gateway, host, '').enter(way));
}

/** The code of a link to an app. */
export function guestCodeOf(url: string): string {
  return new URLSearchParams(new URL(url).hash.slice(1)).get('guest') ?? '';
}

const AGO_MS = 60 * 60_000;

/** Restarts a gateway at the same address, with everybody signed in for an hour by then. */
export async function anHourLater(gateway: TestGateway): Promise<void> {
  const { port } = gateway;
  await gateway.stop();
  const db = openSqlite(joinPath(gateway.dataDir, 'identity.sqlite'));
  const back = "json_set(value, '$.createdAt', json_extract(value, '$.createdAt') - ?, '$.confirmedAt', 0)";
  db.prepare(`UPDATE people_records SET value = ${back} WHERE kind = 'session'`).run(AGO_MS);
  db.close();
  await gateway.start(String(port));
}
