/** Keeps links to apps: whoever opens one uses the app in its role, without an account (specification, "Links"). */
import { hash, randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { SignIn } from '../http/access/cookie.ts';
import { may } from '../http/access/grants.ts';
import type { Link } from '../http/access/guest.ts';
import { ALONE, type IdentityNodes } from './identity-db.ts';
import type { People } from './people.ts';
import type { LinkTo, Records, Share } from './records.ts';
import type { NewShare, Sharing } from './sharing.ts';

/** What the ids of guests' sessions begin with. The id of the share follows, so that nothing is stored of a guest. */
const OF_GUEST = 'g';
const OF_SHARE = 's_';
const SHARE_DIGITS = 12;
/** The end of what does not end by itself. */
const GOOD = Number.POSITIVE_INFINITY;

export type NewLink = Omit<NewShare, 'to'> & Pick<LinkTo, 'maker'>;
type LinkShare = Share & { readonly to: LinkTo };

type LinksOptions = {
  records: Records;
  people: People;
  sharing: Sharing;
  nodes?: IdentityNodes;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export class Links {
  readonly #records: Records;
  readonly #people: People;
  readonly #sharing: Sharing;
  readonly #nodes: IdentityNodes;
  readonly #now: () => number;

  constructor({ records, people, sharing, nodes = ALONE, now = Date.now }: LinksOptions) {
    this.#nodes = nodes;
    this.#records = records;
    this.#people = people;
    this.#sharing = sharing;
    this.#now = now;
  }

  /**
   * Makes a link; its code is in the answer and nowhere else. `before` runs in the turn of the change, and may throw. Rejects with
   * `CONFLICT` where there are too many shares.
   */
  async make(given: NewLink, before: () => void = () => {}): Promise<{ share: Share; code: string }> {
    const { maker, ...rest } = given;
    const code = randomBytes(32).toString('base64url');
    const share = await this.#sharing.share({ ...rest, to: { link: hash('sha256', code), maker } }, before);
    return { share, code };
  }

  /** Whether a session is a guest's. */
  isGuests({ id }: Pick<SignIn, 'id'>): boolean {
    return id.startsWith(OF_GUEST);
  }

  /** The link of a guest's session; null where it has ended. */
  of(session: string): Link | null {
    const digits = session.slice(OF_GUEST.length, OF_GUEST.length + SHARE_DIGITS);
    const share = this.#records.share.get(OF_SHARE + digits);
    if (share === undefined || !this.#nodes.current || !this.isGood(share)) return null;
    const until = Math.min(share.expiresAt ?? GOOD, this.#managedUntil(share.to, share.app));
    return { ...share, expiresAt: until === GOOD ? null : until };
  }

  /**
   * The link with this code. Throws `LINK_ENDED`. A digest that is looked up tells nothing of the codes there are by the time that it
   * takes.
   */
  withCode(code: string): Link {
    const share = this.#sharing.byLink(hash('sha256', code));
    if (share !== undefined && this.isGood(share)) return share;
    throw new SvcError(
      'LINK_ENDED',
      'This link was ended, has expired, or was not copied whole. Ask whoever sent it for another one.',
    );
  }

  /** A session for a guest, until the link ends by itself, or as long as a browser keeps one. */
  begin({ id, expiresAt }: Link): SignIn {
    return {
      id: OF_GUEST + id.slice(OF_SHARE.length) + randomBytes(10).toString('hex'),
      expiresAt: Math.min(expiresAt ?? GOOD, this.#now() + LIMITS.personCookieMs),
    };
  }

  /** Whether a share is a link that opens its app. */
  isGood(share: Share): share is LinkShare {
    const { to, app, expiresAt } = share;
    return 'link' in to && (expiresAt === null || expiresAt > this.#now()) && !this.isVoid(to, app);
  }

  /** Whether the person who made a link may no more share the app. */
  isVoid(to: LinkTo, app: string): boolean {
    return this.#managedUntil(to, app) === 0;
  }

  /** Until when who made a link may share the app; 0 where they may not. */
  #managedUntil({ maker }: LinkTo, app: string): number {
    if (maker === null) return GOOD;
    const account = this.#people.find(maker);
    if (account?.disabled !== false) return 0;
    const { grants } = this.#sharing.knownOf(account);
    const ends = grants
      .filter((one) => may({ grants: [one] }, 'manage', app))
      .map(({ expiresAt }) => expiresAt ?? GOOD);
    return Math.max(0, ...ends);
  }

  /** Notes that a link is opened, at most once a minute. Resolves to whether that was the first time. */
  async noteOpened({ id }: Link): Promise<boolean> {
    const now = this.#now();
    if (now - (this.#records.share.get(id)?.openedAt ?? 0) < LIMITS.useNoteMs) return false;
    return this.#records.change(() => {
      const share = this.#records.share.get(id);
      // It may have ended meanwhile.
      if (share === undefined) return { changes: [], gives: false };
      return { changes: [['put', 'share', { ...share, openedAt: now }]], gives: share.openedAt === undefined };
    });
  }
}
