/** The bodies of one signed webhook that are read before it is known who sends them: a budget that they share. */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { BodyRoom } from '../../edge/body-budget.ts';

/** One of them while it arrives. */
export type ArrivingBody = {
  /** Bytes that have come. */
  received(): number;
  /** Reads no more of it, and answers. */
  cutOff(error: SvcError): void;
};

/**
 * Anybody who knows the address may send bodies, so they have places and bytes of their own, apart from those of all other
 * requests. Where there is no room for more, the slowest is cut off: a sender who has the key sends its body at once, and is
 * faster than whoever holds places by sending little.
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

  /** Room for so many bytes more; false only where those of whole bodies, which are not cut off, leave none. */
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
    slowest.cutOff(tooSlow());
  }
}

function tooSlow(): SvcError {
  const message =
    'Too many requests to this webhook arrive at once, and this one was the slowest; send the body at once.';
  return new SvcError('RATE_LIMITED', message, { headers: { 'retry-after': '1' } });
}
