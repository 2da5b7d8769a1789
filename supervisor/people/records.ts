/**
 * Keeps what the gateway knows of people in memory, and stores each change in the identity database first (specification,
 * "People"). No request waits for the database.
 */
import type { Row, SqlStatement } from '../../protocol/wire/frames.ts';
import type { GatewayRole } from '../http/access/grants.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import { SerialByKey } from '../serial.ts';
import { FirstRead, type Taking } from './first-read.ts';
import { ALONE, type IdentityDb } from './identity-db.ts';

/** An account of the gateway. Times are milliseconds since the epoch. */
export type Account = {
  readonly id: string;
  readonly name: string;
  readonly email: string | null;
  /** True where an owner, an invitation or a provider said whose address it is, not only the person. */
  readonly isVouched: boolean;
  readonly role: GatewayRole;
  readonly disabled: boolean;
  readonly createdAt: number;
  readonly lastSeenAt: number | null;
  /** The id of their picture. */
  readonly picture?: string | null;
  /** As `hashOf` makes it; null where they sign in without one. */
  readonly password: string | null;
};

/** A browser in which a person signed in. `device` is what it calls itself. */
export type PersonSession = {
  readonly id: string;
  readonly person: string;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly address: string;
  readonly device: string;
  /** When the person last confirmed that it is them, if they did since they signed in. */
  readonly confirmedAt?: number;
};

/** A key pair of which a person's device or password manager has the private half. Ids, keys and handles are base64url. */
export type Passkey = {
  readonly id: string;
  readonly person: string;
  readonly name: string;
  /** The host at which it signs in (its relying party). */
  readonly host: string;
  readonly credentialId: string;
  /** In COSE. */
  readonly publicKey: string;
  /** How often it was used, where its device counts that; else 0. */
  readonly counter: number;
  /** How browsers reach its device, in WebAuthn's words. */
  readonly transports: readonly string[];
  /** By which its device knows the account. Random, so that no app can name it. */
  readonly handle: string;
  /** Whether its owner's devices share it. */
  readonly synced: boolean;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
};

export type Group = { readonly id: string; readonly name: string; readonly members: readonly string[] };

/** Whom an app is shared with: a person, a group, each signed-in person, or whoever has a link. */
export type SharedWith =
  | { readonly person: string }
  | { readonly group: string }
  | { readonly everyone: true }
  | LinkTo;

/**
 * `link` is the SHA-256 of its code, in hex; the code itself is not kept. It is good as long as its maker, a person, may share the
 * app; null for the administrator.
 */
export type LinkTo = { readonly link: string; readonly maker: string | null };

/** One role on one app. `by` is the name of who gave it; null for the administrator. */
export type Share = {
  readonly id: string;
  readonly app: string;
  readonly to: SharedWith;
  readonly role: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly by: string | null;
  /** When a link was last opened, to the minute. */
  readonly openedAt?: number;
};

/** A way to an account, for whoever has its code. The code itself is not kept. */
export type Invitation = {
  readonly id: string;
  /** The SHA-256 of its code, in hex. */
  readonly digest: string;
  readonly name: string | null;
  readonly email: string | null;
  readonly role: GatewayRole;
  readonly grants: readonly InvitedTo[];
  /** Whom it signs in, where it is for somebody who has an account. */
  readonly person: string | null;
  /** How many may still use it. */
  readonly uses: number;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly by: string | null;
  /** The person who made it; null for the administrator, and for programs. It is good as long as they may give what it gives. */
  readonly inviter: string | null;
};

/** A role in an app that an invitation gives, for so many days or for good. */
export type InvitedTo = { readonly app: string; readonly role: string; readonly days?: number };

/** A program that registered to be connected. `redirects` are the addresses to which a browser may be sent with an answer for it. */
export type Client = {
  readonly id: string;
  /** What it calls itself. */
  readonly name: string;
  readonly redirects: readonly string[];
  readonly createdAt: number;
  readonly keptUntil: number;
  /** Somebody has connected it. */
  readonly connected: boolean;
};

/** A program that somebody connected to an MCP address, whose key is `app`; null for all apps. Of its tokens there are SHA-256 digests in hex. */
export type Connection = {
  readonly id: string;
  /** Null: the administrator. */
  readonly person: string | null;
  /** The id of the program, and what it calls itself. */
  readonly client: string;
  readonly name: string;
  readonly path: string;
  readonly app: string | null;
  readonly role: string;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  /** When it ends without another refresh. */
  readonly expiresAt: number;
  readonly access: readonly { readonly digest: string; readonly expiresAt: number }[];
  /** Of what all refresh tokens of the connection begin with, and of the rest of the one that is good now. */
  readonly family: string;
  readonly refresh: string;
  /** The refresh token before that one: what it is with `salt` is the next. */
  readonly before: { readonly digest: string; readonly salt: string; readonly at: number } | null;
};

/** Somebody's account at a provider, by which they sign in. Issuer and subject name it for good; the address may change. */
export type Identity = {
  readonly id: string;
  readonly person: string;
  readonly issuer: string;
  readonly subject: string;
  /** The name of the provider in the configuration; null for the trusted proxy. */
  readonly provider: string | null;
  /** The address that the provider vouched for last. */
  readonly email: string | null;
  readonly createdAt: number;
  readonly lastUsedAt: number;
};

type Kinds = {
  person: Account;
  session: PersonSession;
  passkey: Passkey;
  group: Group;
  share: Share;
  invitation: Invitation;
  client: Client;
  connection: Connection;
  identity: Identity;
};
type Kind = keyof Kinds;
type Kept<K extends Kind> = Map<string, Kinds[K]>;

/** Puts a record, in place of the one with its id, or drops one. */
export type Change = { [K in Kind]: readonly ['put', K, Kinds[K]] }[Kind] | readonly ['drop', Kind, string];

const KINDS: readonly Kind[] = [
  'person',
  'session',
  'passkey',
  'group',
  'share',
  'invitation',
  'client',
  'connection',
  'identity',
];

const TABLE = 'people_records';
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS ${TABLE} (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    value TEXT NOT NULL, -- JSON
    PRIMARY KEY (kind, id)
  ) STRICT`;
const PUT = `INSERT INTO ${TABLE} (kind, id, value) VALUES (?, ?, ?) ON CONFLICT (kind, id) DO UPDATE SET value = excluded.value`;
const DROP = `DELETE FROM ${TABLE} WHERE kind = ? AND id = ?`;

/** What became of a record. Without `before` it is new, without `after` it is gone. */
export type Held = { [K in Kind]: { kind: K; before: Kinds[K] | undefined; after: Kinds[K] | undefined } }[Kind];

export class Records {
  readonly person: Kept<'person'> = new Map();
  readonly session: Kept<'session'> = new Map();
  readonly passkey: Kept<'passkey'> = new Map();
  readonly group: Kept<'group'> = new Map();
  readonly share: Kept<'share'> = new Map();
  readonly invitation: Kept<'invitation'> = new Map();
  readonly client: Kept<'client'> = new Map();
  readonly connection: Kept<'connection'> = new Map();
  readonly identity: Kept<'identity'> = new Map();
  /** How often something changed: what was found out before the last time may be wrong. */
  changes = 0;
  readonly #db: IdentityDb['db'];
  readonly #stored: FirstRead;
  readonly #serial = new SerialByKey();
  readonly #followers: ((held: Held) => void)[] = [];
  readonly #tell: (changes: readonly Change[]) => void;

  private constructor(identity: IdentityDb) {
    this.#db = identity.db;
    this.#stored = new FirstRead({
      ...identity,
      table: TABLE,
      warning: 'The people of this gateway cannot be read; nobody is signed in until they can.',
      taking: () => this.#taking(),
    });
    this.#tell = (identity.nodes ?? ALONE).keeps({
      name: TABLE,
      reload: () => this.#serial.run('records', () => this.#stored.again()),
      take: (changes) => this.#hold(changes as Change[]),
      turned: () => void this.changes++,
    });
  }

  /** Reads all records. Where that fails there are none until they can be read. */
  static async open(identity: IdentityDb): Promise<Records> {
    const records = new Records(identity);
    await records.#stored.begin();
    return records;
  }

  /**
   * Runs `work`, after all that was asked for before, and stores the changes that it names, all or none. They hold once this
   * resolves with what it gives besides. Rejects with what `work` throws.
   */
  change<T>(work: () => { changes: readonly Change[]; gives: T }): Promise<T> {
    return this.#serial.run('records', async () => {
      await this.#stored.done();
      const { changes, gives } = work();
      if (changes.length === 0) return gives;
      await retryIfWriterLost(() => this.#db.exec(SCHEMA));
      await retryIfWriterLost(() => this.#db.batch(changes.map(statementOf)));
      this.#hold(changes);
      return gives;
    });
  }

  /** Calls `follower` with every record that there is, and then with each that changes. */
  follow(follower: (held: Held) => void): void {
    for (const kind of KINDS)
      for (const after of this[kind].values()) follower({ kind, before: undefined, after } as Held);
    this.#followers.push(follower);
  }

  close(): void {
    this.#stored.close();
  }

  /** What is stored as it is here already is not held again. */
  #taking(): Taking {
    const stored = new Map(KINDS.map((kind) => [kind, new Set<string>()]));
    const changes: Change[] = [];
    return {
      add: (rows) => {
        for (const row of rows) {
          const { kind, id, value } = row as { kind: Kind; id: string; value: string };
          // What a later release stored besides is not known here.
          if (!KINDS.includes(kind)) continue;
          const known = this[kind].get(id);
          if (known !== undefined) stored.get(kind)?.add(id);
          if (known === undefined || JSON.stringify(known) !== value) changes.push(changeOf(row));
        }
      },
      done: () => {
        for (const [kind, ids] of stored) {
          if (ids.size === this[kind].size) continue;
          for (const id of this[kind].keys()) if (!ids.has(id)) changes.push(['drop', kind, id]);
        }
        return changes.length > 0 && this.#hold(changes);
      },
    };
  }

  /** Answers whether something that somebody was given may have ended. */
  #hold(changes: readonly Change[]): boolean {
    let mayHaveEnded = false;
    for (const [what, kind, value] of changes) {
      const kept = this[kind] as Map<string, unknown>;
      const id = what === 'drop' ? value : value.id;
      const before = kept.get(id);
      if (what === 'drop') kept.delete(id);
      else kept.set(id, value);
      const held = { kind, before, after: what === 'drop' ? undefined : value } as Held;
      for (const follower of this.#followers) follower(held);
      mayHaveEnded ||= mayEnd(held);
    }
    this.changes++;
    this.#tell(changes);
    return mayHaveEnded;
  }
}

function statementOf([what, kind, value]: Change): SqlStatement {
  return what === 'drop' ? [DROP, [kind, value]] : [PUT, [kind, value.id, JSON.stringify(value)]];
}

/** Uses and names change often, and end nothing. */
function mayEnd({ kind, before, after }: Held): boolean {
  if (kind === 'share' || kind === 'group') return true;
  if (before === undefined || after === undefined) return before !== undefined;
  return kind === 'person' && (after.role !== before.role || after.disabled !== before.disabled);
}

function changeOf({ kind, value }: Row): Change {
  return ['put', kind, JSON.parse(String(value))] as unknown as Change;
}
