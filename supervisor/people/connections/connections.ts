/** Keeps the programs that people connected, and gives them tokens (specification, "Connected programs"). */
import { createHmac, hash, randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { LIMITS } from '../../../protocol/limits.ts';
import { connectedCaller } from '../../http/access/connected.ts';
import type { Caller } from '../../http/access/grants.ts';
import type { Known } from '../../http/access/person.ts';
import { ALONE, type IdentityNodes } from '../identity-db.ts';
import type { Change, Connection, Held, Records } from '../records.ts';
import { Clients } from './clients.ts';
import { type Agreed, Codes, isVerified } from './codes.ts';
import { OAuthError } from './oauth-error.ts';

const ACCESS = 'svco_';
const REFRESH = /^svcr_([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

/** What a program gets. `expiresIn` is of the access token, in seconds. */
export type Tokens = { connection: Connection; access: string; refresh: string; expiresIn: number };

type CodeAsked = {
  code: string;
  client: string;
  redirect: string | undefined;
  verifier: string;
  path: string | undefined;
};
type RefreshAsked = { refresh: string; client: string; path: string | undefined };

type ConnectionsOptions = {
  records: Records;
  nodes?: IdentityNodes;
  /** What a person may do now; null where they may not sign in. */
  known(person: string): Known | null;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** A code or refresh token was used twice: somebody else has it. The connection has ended. */
export class ReusedError extends OAuthError {
  readonly connection: Connection | null;

  constructor(connection: Connection | null) {
    super('invalid_grant', 'This was used before, so what was given with it has ended. Sign in again.');
    this.connection = connection;
  }
}

/** `ended`: a connection has ended, so what goes on with it must end. */
export class Connections extends EventEmitter<{ ended: [] }> {
  readonly clients: Clients;
  readonly #records: Records;
  readonly #nodes: IdentityNodes;
  readonly #known: ConnectionsOptions['known'];
  readonly #now: () => number;
  readonly #codes: Codes;
  /** By the digests of their access tokens, and of what their refresh tokens begin with. */
  readonly #byAccess = new Map<string, Connection>();
  readonly #byFamily = new Map<string, Connection>();
  /** When each was last used, where that is not stored yet: it is with the next refresh. */
  readonly #used = new Map<string, number>();

  constructor({ records, nodes = ALONE, known, now = Date.now }: ConnectionsOptions) {
    super();
    this.#nodes = nodes;
    this.#records = records;
    this.#known = known;
    this.#now = now;
    this.#codes = new Codes(now);
    this.clients = new Clients({ records, now });
    records.follow((held) => this.#follow(held));
  }

  /** The code that a browser takes to the program. */
  agree(agreed: Agreed): string {
    return this.#codes.give(agreed);
  }

  /** Connects a program that presents its code. Rejects with an `OAuthError`. */
  async exchange({ code, client, redirect, verifier, path }: CodeAsked): Promise<Tokens> {
    const given = this.#codes.find(code);
    if (given === undefined) throw invalidGrant('The code is wrong, or older than a minute.');
    if (given.connection !== null) {
      given.isSpoiled = true;
      throw new ReusedError(await this.#drop(given.connection));
    }
    const id = `c_${randomBytes(6).toString('hex')}`;
    given.connection = id;
    const { agreed } = given;
    if (client !== agreed.client) throw invalidGrant('The code was given to another program.');
    if (redirect !== agreed.redirect) throw invalidGrant('The redirect_uri is not that of the code.');
    if (!isVerified(verifier, agreed.challenge)) throw invalidGrant('The code_verifier is not that of the code.');
    checkTarget(path, agreed.path);
    const family = randomBytes(16).toString('base64url');
    const secret = randomBytes(32).toString('base64url');
    const access = this.#newAccess();
    const tokens = await this.#records.change(() => {
      if (given.isSpoiled) throw new ReusedError(null);
      if (!this.#isAllowed(agreed.person)) throw invalidGrant('This person may not sign in.');
      const now = this.#now();
      const { redirect: _, challenge: __, ...rest } = agreed;
      const connection: Connection = {
        ...rest,
        id,
        createdAt: now,
        lastUsedAt: now,
        expiresAt: now + LIMITS.refreshTokenMs,
        access: [access.stored],
        family: hash('sha256', family),
        refresh: hash('sha256', secret),
        before: null,
      };
      const changes = [...this.#makesRoom(agreed.person), ...this.clients.keeps(client)];
      return { changes: [...changes, ['put', 'connection', connection]], gives: connection };
    });
    this.emit('ended');
    return tokensOf(tokens, access.text, family, secret);
  }

  /** Gives new tokens for a refresh token, which is then used up. Rejects with an `OAuthError`. */
  async refresh({ refresh, client, path }: RefreshAsked): Promise<Tokens> {
    const [, family = '', secret = ''] = REFRESH.exec(refresh) ?? [];
    const access = this.#newAccess();
    const { connection, next } = await this.#records.change<{ connection: Connection; next: string | null }>(() => {
      const now = this.#now();
      const known = this.#byFamily.get(hash('sha256', family));
      if (known === undefined || known.expiresAt <= now || known.client !== client || !this.#isAllowed(known.person))
        throw invalidGrant('The refresh token is wrong, has expired, or what it was given for has ended.');
      checkTarget(path, known.path);
      const digest = hash('sha256', secret);
      const { before } = known;
      // A client may ask twice at once, or not get the first answer.
      const isAgain = before?.digest === digest && now - before.at < LIMITS.refreshAgainMs;
      if (known.refresh !== digest && !isAgain)
        return { changes: [['drop', 'connection', known.id]], gives: { connection: known, next: null } };
      const salt = isAgain ? before.salt : randomBytes(16).toString('base64url');
      const next = createHmac('sha256', secret).update(salt).digest('base64url');
      const good = known.access.filter(({ expiresAt }) => expiresAt > now).slice(1 - LIMITS.accessTokens);
      const connection: Connection = {
        ...known,
        lastUsedAt: now,
        access: [...good, access.stored],
        ...(!isAgain && {
          expiresAt: now + LIMITS.refreshTokenMs,
          refresh: hash('sha256', next),
          before: { digest, salt, at: now },
        }),
      };
      return { changes: [['put', 'connection', connection]], gives: { connection, next } };
    });
    if (next !== null) return tokensOf(connection, access.text, family, next);
    this.emit('ended');
    throw new ReusedError(connection);
  }

  /** Ends what a program was given that presents one of its tokens (RFC 7009). Null for a token that is none, or another program's. */
  async revoke(token: string, client: string): Promise<Connection | null> {
    const [, family = ''] = REFRESH.exec(token) ?? [];
    const found = this.#byFamily.get(hash('sha256', family)) ?? this.#byAccess.get(hash('sha256', token));
    return found?.client === client ? await this.#drop(found.id) : null;
  }

  /** Who presents an access token at the address of `path`; undefined for a token that is not good, or is for another address. */
  caller(token: string, path: string): { caller: Caller; expiresAt: number } | undefined {
    if (!token.startsWith(ACCESS) || !this.#nodes.current) return undefined;
    const digest = hash('sha256', token);
    const connection = this.#byAccess.get(digest);
    const expiresAt = connection?.access.find((one) => one.digest === digest)?.expiresAt ?? 0;
    if (connection === undefined || connection.path !== path || expiresAt <= this.#now()) return undefined;
    const { id, name, app, role, person } = connection;
    const isGood = () => this.#nodes.current && this.#records.connection.has(id) && expiresAt > this.#now();
    const known = person === null ? null : () => (isGood() ? this.#known(person) : null);
    const caller = connectedCaller({ id, name, app, role, expiresAt, isGood }, known);
    if (caller === null) return undefined;
    this.#used.set(id, this.#now());
    return { caller, expiresAt };
  }

  /** What a person connected, or with null the administrator: the one last used first. */
  of(person: string | null): Connection[] {
    return this.#all((one) => one.person === person && one.expiresAt > this.#now());
  }

  /** Ends a connection of a person, or with null of the administrator; null where they have none of this id. */
  async end(person: string | null, id: string): Promise<Connection | null> {
    return this.#records.connection.get(id)?.person === person ? await this.#drop(id) : null;
  }

  /** What goes with a person: part of a larger change. */
  forgets(person: string): Change[] {
    return dropped(this.#all((one) => one.person === person));
  }

  /** What goes with an app, its drafts too: part of a larger change. */
  forgetsApp(app: string): Change[] {
    return dropped(this.#all((one) => one.app === app || one.app?.endsWith(`/${app}`) === true));
  }

  async #drop(id: string): Promise<Connection | null> {
    const ended = await this.#records.change(() => {
      const found = this.#records.connection.get(id);
      return { changes: found === undefined ? [] : dropped([found]), gives: found ?? null };
    });
    this.emit('ended');
    return ended;
  }

  #isAllowed(person: string | null): boolean {
    return person === null || this.#known(person) !== null;
  }

  #makesRoom(person: string | null): Change[] {
    const now = this.#now();
    const over = this.#all(({ expiresAt }) => expiresAt <= now);
    if (this.#records.connection.size - over.length >= LIMITS.connectedPrograms)
      throw new OAuthError('temporarily_unavailable', 'Too many programs are connected here.', 503);
    return dropped([...over, ...this.of(person).slice(LIMITS.personConnections - 1)]);
  }

  #all(is: (connection: Connection) => boolean): Connection[] {
    const found = [...this.#records.connection.values()].filter(is);
    const shown = found.map((one) => ({ ...one, lastUsedAt: this.#used.get(one.id) ?? one.lastUsedAt }));
    return shown.sort((one, other) => other.lastUsedAt - one.lastUsedAt);
  }

  #newAccess(): { text: string; stored: Connection['access'][number] } {
    const text = ACCESS + randomBytes(32).toString('hex');
    return { text, stored: { digest: hash('sha256', text), expiresAt: this.#now() + LIMITS.accessTokenMs } };
  }

  #follow({ kind, before, after }: Held): void {
    if (kind !== 'connection') return;
    for (const { digest } of before?.access ?? []) this.#byAccess.delete(digest);
    if (before !== undefined) this.#byFamily.delete(before.family);
    if (after === undefined) {
      this.#used.delete(before?.id ?? '');
      return;
    }
    for (const { digest } of after.access) this.#byAccess.set(digest, after);
    this.#byFamily.set(after.family, after);
  }
}

function tokensOf(connection: Connection, access: string, family: string, secret: string): Tokens {
  return { connection, access, refresh: `svcr_${family}.${secret}`, expiresIn: LIMITS.accessTokenMs / 1000 };
}

function dropped(connections: readonly Connection[]): Change[] {
  return connections.map(({ id }) => ['drop', 'connection', id]);
}

function invalidGrant(message: string): OAuthError {
  return new OAuthError('invalid_grant', message);
}

/** A program may say which address its tokens are for, which is the one that was agreed to (RFC 8707). */
function checkTarget(path: string | undefined, agreed: string): void {
  if (path !== undefined && path !== agreed)
    throw new OAuthError('invalid_target', 'This was given for another address.');
}
