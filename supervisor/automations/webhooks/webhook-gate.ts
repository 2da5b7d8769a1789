/** How often, and how many at a time, the requests of a webhook get through: fixed windows and places, per slug. */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { UnverifiedBodies } from './unverified-bodies.ts';

/** A request's place. Whoever got it gives it back; doing so again, or after another one took its turn, does nothing. */
export type Place = { release(): void };

/** A fixed window: it opens with the first count and is over `webhookWindowMs` later. */
type Window = { opened: number; count: number };

type Entry = {
  fires: Window;
  failures: Window;
  /** The request whose turn it is, until its run has ended. */
  running: Place | null;
  /** What is read before it is known who sends it. */
  unverified: UnverifiedBodies;
};

/**
 * Counts requests by slug (specification, "Webhook route"; decisions, section 6). Ask it about slugs only that an
 * automation has, so that strangers cannot make entries. Every decision is taken and noted in one call, without an await:
 * of two requests in one turn the second sees the first.
 */
export class WebhookGate {
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  #swept: number;

  /** `now` gives milliseconds and never goes back. */
  constructor(now: () => number) {
    this.#now = now;
    this.#swept = now();
  }

  /** Slugs about which something is remembered. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * The turn of a request whose sender is known, until the place is given back. Throws `RATE_LIMITED` after
   * `LIMITS.webhookFires` turns in a window, and `CONFLICT` while another one has it. What is refused is not counted.
   */
  enter(slug: string): Place {
    const entry = this.#entry(slug);
    const wait = this.#exhausted(entry.fires, LIMITS.webhookFires);
    if (wait > 0) {
      throw rateLimited(
        `This webhook takes ${LIMITS.webhookFires} requests in ${LIMITS.webhookWindowMs / 1000} s.`,
        wait,
      );
    }
    if (entry.running !== null) throw new SvcError('CONFLICT', 'An earlier request to this webhook is still running.');
    this.#count(entry.fires);
    const place: Place = {
      release: () => {
        if (entry.running === place) entry.running = null;
      },
    };
    entry.running = place;
    return place;
  }

  /** Where the bodies of this webhook are read before it is known who sends them; to be used in the same turn. */
  unverified(slug: string): UnverifiedBodies {
    return this.#entry(slug).unverified;
  }

  /**
   * Counts a request that did not prove who sends it, and returns what it is answered: `refusal`, or `RATE_LIMITED` after
   * `LIMITS.webhookFailures` of them in a window. Those who prove it are never refused for the failures of others.
   */
  fail(slug: string, refusal: SvcError): SvcError {
    const { failures } = this.#entry(slug);
    const wait = this.#exhausted(failures, LIMITS.webhookFailures);
    if (wait > 0) return rateLimited('Too many requests to this webhook came with a wrong secret or signature.', wait);
    this.#count(failures);
    return refusal;
  }

  /** Forgets the slugs that no automation has any more. One whose run is under way is forgotten after it. */
  retain(isKnown: (slug: string) => boolean): void {
    for (const [slug, entry] of this.#entries) {
      if (!isKnown(slug) && !isOccupied(entry)) this.#entries.delete(slug);
    }
  }

  #entry(slug: string): Entry {
    const known = this.#entries.get(slug);
    if (known) return known;
    this.#sweep();
    const entry: Entry = {
      fires: { opened: 0, count: 0 },
      failures: { opened: 0, count: 0 },
      running: null,
      unverified: new UnverifiedBodies(this.#now),
    };
    this.#entries.set(slug, entry);
    return entry;
  }

  /** Once in a window, so that each entry costs its share and no more. */
  #sweep(): void {
    const now = this.#now();
    if (now - this.#swept < LIMITS.webhookWindowMs) return;
    this.#swept = now;
    for (const [slug, entry] of this.#entries) {
      if (!isOccupied(entry) && this.#isOver(entry.fires) && this.#isOver(entry.failures)) this.#entries.delete(slug);
    }
  }

  /** Milliseconds until a window that is full is over; 0 when there is room. */
  #exhausted(window: Window, limit: number): number {
    if (window.count < limit || this.#isOver(window)) return 0;
    return window.opened + LIMITS.webhookWindowMs - this.#now();
  }

  #count(window: Window): void {
    if (this.#isOver(window)) {
      window.opened = this.#now();
      window.count = 0;
    }
    window.count += 1;
  }

  #isOver(window: Window): boolean {
    return window.count === 0 || this.#now() - window.opened >= LIMITS.webhookWindowMs;
  }
}

function isOccupied(entry: Entry): boolean {
  return entry.running !== null || entry.unverified.size > 0 || entry.unverified.held > 0;
}

function rateLimited(message: string, waitMs: number): SvcError {
  return new SvcError('RATE_LIMITED', message, { headers: { 'retry-after': String(Math.ceil(waitMs / 1000)) } });
}
