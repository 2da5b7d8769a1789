/**
 * Makes the callers with the administrator's token, a session, or a token for a program, and those that a host lets through
 * (specification, "Access token", "Tokens for programs" and "Page key").
 */

import type { IncomingMessage } from 'node:http';
import type { PageOwner } from '../../../protocol/http/origins.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import { ADMIN_CALLER, type HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { SignIn } from './cookie.ts';
import { type Allows, type Caller, type Grant, lastingGrant, RIGHTS } from './grants.ts';
import type { ProgramToken } from './program-tokens.ts';

const SIGNED_IN: HandlerCaller = { kind: 'session' };

export const ENDED = 'What this was asked with has ended meanwhile.';

/** The caller with the token of `token.bin`. `isGood` says whether that is still the token. */
export function administrator(isGood: () => boolean): Caller {
  return {
    kind: 'admin',
    shown: () => ADMIN_CALLER,
    owner: null,
    client: 'admin',
    identity: ADMIN_CALLER.kind,
    grants: [{ on: 'everything', rights: RIGHTS.everything, expiresAt: null, isGood }],
    get ended() {
      return !isGood();
    },
    refusal: () => ENDED,
  };
}

/** The caller of a gateway that asks for no token: it may do everything. */
export const ADMIN: Caller = administrator(() => true);

/** The caller of a route that asks nobody who they are. It may do nothing else. */
export const NOBODY: Caller = {
  kind: 'session',
  shown: () => SIGNED_IN,
  owner: null,
  byCookie: true,
  client: 'nobody',
  identity: 'nobody',
  grants: [],
  ended: false,
  refusal: () => 'Sign in first.',
};

/** The caller with `metricsToken` of the configuration, where it asks for metrics. */
export const SCRAPER: Caller = { ...ADMIN, kind: 'token', shown: () => ({ kind: 'token', name: 'metrics' }) };

/**
 * The scope of a session. The session of the console reaches everything. That of a shared origin reaches the pages of all apps,
 * without administration. That of a page's origin reaches its own app or draft.
 */
export type Reach = 'console' | 'shared' | PageOwner;

/**
 * The caller with a session. A session without its page key is only a cookie, which other servers on this machine get as well.
 * It opens pages and loads their files.
 */
export function sessionCaller(reach: Reach, { id, expiresAt }: SignIn, isGood: () => boolean, keyless = false): Caller {
  return {
    kind: 'session',
    shown: () => SIGNED_IN,
    owner: ownerOf(reach),
    byCookie: true,
    client: `session ${id}`,
    // All sign-ins with the machine's token have one identity.
    identity: 'person',
    grants: [{ ...reached(reach, keyless), expiresAt, isGood }],
    get ended() {
      return !isGood();
    },
    keyless,
    refusal: (app) => (isGood() ? (refusalAt(reach, keyless, app) ?? ENDED) : ENDED),
  };
}

/** The app or draft whose page has the session. */
export function ownerOf(reach: Reach): PageOwner | null {
  return typeof reach === 'string' ? null : reach;
}

/** What a session may do where it is, for somebody who may do everything. */
export function reached(reach: Reach, keyless: boolean): Pick<Grant, 'on' | 'rights'> {
  const owner = ownerOf(reach);
  const rights = keyless ? RIGHTS.cookie : reach === 'console' ? RIGHTS.everything : RIGHTS.page;
  return { on: owner === null ? 'everything' : { key: scopeKey(owner.app, owner.workspace) }, rights };
}

/** Why a session may not do something where it is. Null: it may do everything there. */
export function refusalAt(reach: Reach, keyless: boolean, app: string | null): string | null {
  if (keyless) return KEYLESS;
  if (reach === 'console') return null;
  return reach === 'shared' ? SHARED : refusalOfPage(reach, app);
}

/** The caller with a token for programs. */
export function tokenCaller({ id, name, apps, tools, expiresAt }: ProgramToken, isGood: () => boolean): Caller {
  const shown: HandlerCaller = { kind: 'token', name };
  const client = `token ${id}`;
  const on = { apps: apps === null ? null : (app: string) => apps.includes(app) };
  return {
    kind: 'token',
    shown: () => shown,
    owner: null,
    client,
    identity: client,
    grants: [{ on, rights: RIGHTS[tools], expiresAt, isGood }],
    get ended() {
      return !isGood();
    },
    refusal() {
      if (!isGood()) return ENDED;
      const which = apps === null ? 'every app' : apps.map((app) => `"${app}"`).join(', ') || 'no app';
      return `The token "${name}" may do "${tools}" with ${which}, and this needs more.`;
    },
  };
}

export const NOT_BY_HOST = 'The server that this gateway is part of does not allow this.';

/** What a host is asked in place of the Bearer check. `app` is null for a request that is about no app. */
export type HostNeed = { app: string | null; capability: Capability };
/**
 * A request as a host sees it. `raw` is the request that the host handed over, with what its middleware put there. It is null
 * where `serve` listens.
 */
export type HostRequest = {
  method: string;
  path: string;
  query: string;
  header(name: string): string | undefined;
  raw: IncomingMessage | null;
};
/** A host's decision. It is made at once: the host looks up who is signed in before it hands a request over. */
export type Authorize = (request: HostRequest, need: HostNeed) => boolean;

/** Whether a request comes with what the host itself checks, such as its own token. It is decided at once. */
export type Admits = (request: HostRequest) => boolean;

/** The capabilities that a host allows a request. Any answer but `true` is a refusal. */
export function allowedByHost(authorize: Authorize, request: HostRequest): Allows {
  return (capability, app) => authorize(request, { app, capability }) === true;
}

/** The caller that a host's own server let through. `also` decides what it may do. */
export function hostCaller(atMost: Allows): Caller {
  return {
    kind: 'host',
    shown: () => SIGNED_IN,
    owner: null,
    client: 'host',
    identity: 'host',
    grants: [lastingGrant('everything', RIGHTS.everything)],
    ended: false,
    atMost,
    refusal: () => NOT_BY_HOST,
  };
}

export const KEYLESS =
  'The session cookie alone opens pages. A page sends its page key with each call: call svc.fetch, and show files by svc.url.';

const SHARED =
  'All apps share this address, so a browser session may not administer here. Use the access token; or open ' +
  'http://svc.localhost with the port of the gateway on its own machine, or set appDomain in the configuration: ' +
  'there each app and the console have separate addresses.';

function refusalOfPage(owner: PageOwner, app: string | null): string {
  const what = owner.workspace === undefined ? `A page of "${owner.app}"` : `The draft of "${owner.app}"`;
  const scope = `${what} may use its own files, tools, changes and settings only.`;
  if (app === null || app === scopeKey(owner.app, owner.workspace) || owner.workspace !== undefined) return scope;
  return `${scope} To call tools of "${app.slice(0, 80)}", name it under "uses" in the app.json of "${owner.app}".`;
}
