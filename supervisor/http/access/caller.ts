/** Who calls, and what they may do (decisions, section 11). */
import { SvcError } from '../../../protocol/errors.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { type PageOwner, pagePath } from '../../../protocol/origins.ts';
import { type Capability, type Grant, may } from './grants.ts';
import type { Place } from './places.ts';

/** Made for each request, or once where all requests of its kind are alike. */
export interface Caller {
  readonly kind: 'admin' | 'host' | 'session' | 'token';
  /** The app or draft whose page this is: its own address is `/` too. */
  readonly owner: PageOwner | null;
  /** When what it presented ends, in milliseconds since the epoch; null when it does not. */
  readonly expiresAt: number | null;
  /** `app` is the key of a live app or of a draft (`draftKey`); null for what is about none. */
  may(capability: Capability, app: string | null): boolean;
  /** Why it may not, for the `FORBIDDEN` answer. */
  refusal(app: string | null): string;
}

/** Throws `FORBIDDEN` unless the caller may. */
export function demand(caller: Caller, capability: Capability, app: string | null): void {
  if (!caller.may(capability, app)) throw new SvcError('FORBIDDEN', caller.refusal(app));
}

/** Whoever has the token of `token.bin`. */
export const ADMIN: Caller = {
  kind: 'admin',
  owner: null,
  expiresAt: null,
  may: () => true,
  refusal: () => '',
};

/** A route that is open asks nobody, so nobody may do anything. */
export const NOBODY: Caller = {
  kind: 'session',
  owner: null,
  expiresAt: null,
  may: () => false,
  refusal: () => 'Sign in first.',
};

const ENDED = 'What this was asked with has ended meanwhile.';

/**
 * Whoever presented something that can end: a session or a token. A request may take minutes to arrive, so each question asks anew
 * whether it is still good.
 */
abstract class PassingCaller implements Caller {
  abstract readonly kind: Caller['kind'];
  readonly owner: PageOwner | null = null;
  readonly expiresAt: number | null;
  readonly #isGood: () => boolean;

  constructor(expiresAt: number | null, isGood: () => boolean) {
    this.expiresAt = expiresAt;
    this.#isGood = isGood;
  }

  may(capability: Capability, app: string | null): boolean {
    return this.#isGood() && this.permits(capability, app);
  }

  refusal(app: string | null): string {
    return this.#isGood() ? this.explain(app) : ENDED;
  }

  protected abstract permits(capability: Capability, app: string | null): boolean;
  protected abstract explain(app: string | null): string;
}

/** The cookie of the console's origin. */
export class ConsoleCaller extends PassingCaller {
  readonly kind = 'session';

  protected permits(): boolean {
    return true;
  }

  protected explain(): string {
    return ENDED;
  }
}

/** The cookie of an app's or a draft's origin. */
export class PageCaller extends PassingCaller {
  readonly kind = 'session';
  override readonly owner: PageOwner;
  readonly #key: string;

  constructor(owner: PageOwner, expiresAt: number, isGood: () => boolean) {
    super(expiresAt, isGood);
    this.owner = owner;
    this.#key = owner.session === undefined ? owner.app : draftKey(owner.session, owner.app);
  }

  protected permits(capability: Capability, app: string | null): boolean {
    return app === this.#key && capability !== 'manage' && capability !== 'admin';
  }

  protected explain(app: string | null): string {
    const { app: own, session } = this.owner;
    const what = session === undefined ? `A page of "${own}"` : `The draft of "${own}"`;
    const scope = `${what} may use its own files, tools, changes and settings only.`;
    if (app === null || app === this.#key || session !== undefined) return scope;
    return `${scope} To call tools of "${app.slice(0, 80)}", name it under "uses" in the app.json of "${own}".`;
  }
}

/** The cookie of an origin that all apps share: their pages, and nothing that administers. */
export class SharedCaller extends PassingCaller {
  readonly kind = 'session';

  protected permits(capability: Capability): boolean {
    return capability !== 'manage' && capability !== 'admin';
  }

  protected explain(): string {
    return (
      'All apps share this address, so a browser session may not administer here. Use the access token; or open ' +
      'http://svc.localhost with the port of the gateway on its own machine, or set appDomain in the configuration: ' +
      'there each app and the console have separate addresses.'
    );
  }
}

/** The token of a program. */
export class TokenCaller extends PassingCaller {
  readonly kind = 'token';
  readonly #grant: Grant;

  constructor(grant: Grant, isGood: () => boolean) {
    super(grant.expiresAt, isGood);
    this.#grant = grant;
  }

  protected permits(capability: Capability, app: string | null): boolean {
    return may(this.#grant, capability, app);
  }

  protected explain(): string {
    const { name, apps, tools } = this.#grant;
    const which = apps === null ? 'every app' : apps.map((id) => `"${id}"`).join(', ') || 'no app';
    return `The token "${name}" may do "${tools}" with ${which}, and this needs more.`;
  }
}

/** What a host is asked about, in place of the Bearer check. `app` is null for what is about none. */
export type HostNeed = { app: string | null; capability: Capability };
/** What a host sees of a request. */
export type HostRequest = { method: string; path: string; query: string; header(name: string): string | undefined };
/** A host's decision, made at once: what it needs to know, such as who is signed in, it looks up before it hands a request over. */
export type Authorize = (request: HostRequest, need: HostNeed) => boolean;

/** Whoever a host's own server let through; `authorize` decides the rest. */
export class HostCaller implements Caller {
  readonly kind = 'host';
  readonly owner = null;
  readonly expiresAt = null;
  readonly #request: HostRequest;
  readonly #authorize: Authorize;

  constructor(request: HostRequest, authorize: Authorize) {
    this.#request = request;
    this.#authorize = authorize;
  }

  may(capability: Capability, app: string | null): boolean {
    return this.#authorize(this.#request, { app, capability }) === true;
  }

  refusal(): string {
    return 'The server that this gateway is part of does not allow this.';
  }
}

/** The path below which the files of the page's owner are, at an origin of its own. */
export function homeOf(caller: Caller, place: Place): string | null {
  const owner = place.kind === 'page' ? (place.owner ?? caller.owner) : null;
  return owner === null ? null : pagePath(owner);
}
