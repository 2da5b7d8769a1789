/** Limits the rate and the number of concurrent requests of a webhook: fixed windows and places, per slug. */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { BodyRoom } from '../../edge/edge.ts';

const TOO_MANY = `This webhook takes ${LIMITS.webhookFires} requests in ${LIMITS.webhookWindowMs / 1000} s.`;
const TOO_SLOW =
  'Too many requests to this webhook arrive at once, and this one was the slowest; send the body at once.';

/** A request's place. Releasing it twice, or after another request took it, does nothing. */
type Place = { release(): void };

/** A fixed window: it opens with the first count and is over `webhookWindowMs` later. */
type Window = { opened: number; count: number };

type Entry = {
  fires: Window;
  failures: Window;
  /** The request whose turn it is, until its run has ended. */
  running: Place | null;
  /** Bodies that are read before the sender is verified. */
  unverified: UnverifiedBodies;
};

/**
 * Counts requests by slug (specification, "Webhook requests"). Ask it about slugs only that an
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

  /** The turn of a known sender. Throws `RATE_LIMITED` over `LIMITS.webhookFires`, `CONFLICT` while another has it; neither is counted. */
  enter(slug: string): Place {
    const entry = this.#entry(slug);
    const wait = this.#exhausted(entry.fires, LIMITS.webhookFires);
    if (wait > 0) throw rateLimited(TOO_MANY, wait);
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

/** A body that is read before it is known who sends it, while it arrives. */
export type ArrivingBody = {
  /** Bytes that have come. */
  received(): number;
  /** Reads no more of it, and answers. */
  cutOff(error: SvcError): void;
};

/**
 * The budget that unverified bodies of one signed webhook share. Everyone who knows the address may send them, so they have
 * separate places and bytes. Without room, the slowest is cut off: a real sender sends its body at once, faster than senders
 * that hold places by sending little.
 */
export class UnverifiedBodies implements BodyRoom {
  readonly #now: () => number;
  readonly #arriving = new Map<ArrivingBody, number>();
  #held = 0;

  /** `now` gives milliseconds and never goes back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** How many arrive now. */
  get size(): number {
    return this.#arriving.size;
  }

  /** Bytes that were taken and not given back. */
  get held(): number {
    return this.#held;
  }

  /** Gives a body a place, for which another one may be cut off. */
  enter(body: ArrivingBody): void {
    if (this.#arriving.size >= LIMITS.webhookUnverified) this.#cutOffSlowest();
    this.#arriving.set(body, this.#now());
  }

  /** The body is whole, was refused, or its sender has gone. Does nothing the second time. */
  leave(body: ArrivingBody): void {
    this.#arriving.delete(body);
  }

  /** Makes room for more bytes; false only when whole bodies, which are not cut off, take all of it. */
  take(bytes: number): boolean {
    while (this.#held + bytes > LIMITS.webhookUnverifiedBytes && this.#arriving.size > 0) this.#cutOffSlowest();
    if (this.#held + bytes > LIMITS.webhookUnverifiedBytes) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }

  /** A body that has just begun is not slow yet: of those, the one that brought least, which is in the end the oldest. */
  #cutOffSlowest(): void {
    const now = this.#now();
    let slowest: ArrivingBody | undefined;
    let least = Number.POSITIVE_INFINITY;
    let isSlowestYoung = true;
    for (const [body, since] of this.#arriving) {
      const isYoung = now - since < LIMITS.webhookYoungMs;
      const speed = body.received() / Math.max(now - since, LIMITS.webhookYoungMs);
      if (isYoung !== isSlowestYoung ? isSlowestYoung : speed < least) {
        slowest = body;
        least = speed;
        isSlowestYoung = isYoung;
      }
    }
    if (slowest === undefined) return;
    this.leave(slowest);
    slowest.cutOff(rateLimited(TOO_SLOW, 1000));
  }
}
