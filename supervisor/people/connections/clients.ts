/** Keeps the programs that registered to be connected, and says where each may be answered (specification, "Connected programs"). */
import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Change, Client, Records } from '../records.ts';
import { OAuthError } from './oauth-error.ts';

/** What editors call themselves in addresses; other programs have names with a dot (RFC 8252, section 7.1). */
const EDITORS = ['cursor', 'vscode', 'vscode-insiders', 'vscodium', 'windsurf', 'zed'];
const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::\d{1,5})?(?=[/?]|$)/;
/** Characters that change how the text around them is shown. */
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;
const UNNAMED = 'A program without a name';

type ClientsOptions = {
  records: Records;
  /** Milliseconds since the epoch. */
  now: () => number;
};

export class Clients {
  readonly #records: Records;
  readonly #now: () => number;

  constructor({ records, now }: ClientsOptions) {
    this.#records = records;
    this.#now = now;
  }

  /** Undefined for one that never registered, or was not used for long. */
  find(id: string): Client | undefined {
    const client = this.#records.client.get(id);
    return client !== undefined && client.keptUntil > this.#now() ? client : undefined;
  }

  /**
   * Registers a program by what it says of itself (RFC 7591). Those that nobody connected make room, the oldest first. Rejects with
   * an `OAuthError`.
   */
  register(metadata: Readonly<Record<string, unknown>>): Promise<Client> {
    const { name, redirects } = saidOf(metadata);
    return this.#records.change(() => {
      const now = this.#now();
      const all = [...this.#records.client.values()];
      const over = all.filter(({ keptUntil }) => keptUntil <= now);
      const left = all.length - over.length;
      const unused = all.find(({ keptUntil, connected }) => keptUntil > now && !connected);
      if (left >= LIMITS.connectionClients && unused === undefined)
        throw new OAuthError('temporarily_unavailable', 'Too many programs are registered here.', 503);
      const gone = left >= LIMITS.connectionClients && unused !== undefined ? [...over, unused] : over;
      const id = `client_${randomBytes(16).toString('hex')}`;
      const client = { id, name, redirects, createdAt: now, keptUntil: now + LIMITS.clientUnusedMs, connected: false };
      const changes = gone.map((old): Change => ['drop', 'client', old.id]);
      return { changes: [...changes, ['put', 'client', client]], gives: client };
    });
  }

  /** The change that keeps a program which somebody connects: part of a larger change. */
  keeps(id: string): Change[] {
    const client = this.#records.client.get(id);
    if (client === undefined) return [];
    return [['put', 'client', { ...client, connected: true, keptUntil: this.#now() + LIMITS.clientKeptMs }]];
  }
}

/** What a program says of itself, checked. Throws an `OAuthError`. */
export function saidOf({ client_name: named, redirect_uris: uris }: Readonly<Record<string, unknown>>) {
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > LIMITS.clientRedirects)
    throw new OAuthError('invalid_redirect_uri', `Send 1 to ${LIMITS.clientRedirects} addresses as redirect_uris.`);
  for (const uri of uris) checkRedirect(uri);
  if (named !== undefined && typeof named !== 'string')
    throw new OAuthError('invalid_client_metadata', 'The client_name must be a text.');
  const name = (named ?? '').replace(UNSHOWN, ' ').trim().slice(0, LIMITS.clientNameChars) || UNNAMED;
  return { name, redirects: uris as string[] };
}

/** Throws `invalid_redirect_uri` for what a browser must not be sent to with a code. */
function checkRedirect(uri: unknown): void {
  const text = typeof uri === 'string' && uri.length <= LIMITS.clientRedirectChars ? uri : '';
  const url = URL.canParse(text) && !/[\s#\\]/.test(text) ? new URL(text) : null;
  const scheme = url?.protocol.slice(0, -1) ?? '';
  const isOfProgram = EDITORS.includes(scheme) || (/^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+$/.test(scheme) && text !== '');
  const isRight = scheme === 'https' || LOOPBACK.test(text) || isOfProgram;
  if (url === null || url.username !== '' || url.password !== '' || !isRight)
    throw new OAuthError(
      'invalid_redirect_uri',
      'A redirect_uri is an https address, one of this machine with http, or of a program with a scheme such as com.example.app. It has no fragment and no password.',
    );
}

/** Whether a program may be answered at an address: exactly one that it named, of this machine with any port (RFC 8252, section 7.3). */
export function isRedirectOf({ redirects }: Pick<Client, 'redirects'>, uri: string): boolean {
  const plain = uri.replace(LOOPBACK, '$1');
  return redirects.some((one) => one === uri || (LOOPBACK.test(one) && one.replace(LOOPBACK, '$1') === plain));
}

/** The host to which a browser is sent; null for a program on the same machine. */
export function hostOfRedirect(uri: string): string | null {
  const { protocol, host } = new URL(uri);
  return protocol === 'https:' ? host : null;
}
