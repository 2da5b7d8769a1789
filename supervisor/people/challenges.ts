/**
 * Gives out the challenges that passkeys answer, and takes each back once, from the browser that asked for it (specification, "Signing
 * in").
 */
import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../protocol/limits.ts';

/** What an answer is for: signing in, or a new passkey, which its device keeps under `handle`. */
export type Purpose =
  | { readonly to: 'sign-in' }
  | { readonly to: 'add'; readonly person: string; readonly handle: string }
  | { readonly to: 'join'; readonly invitation: string; readonly handle: string };

type Given = { readonly purpose: Purpose; readonly browser: string; readonly network: string; readonly until: number };

export class Challenges {
  readonly #now: () => number;
  /** By the challenge, the oldest first. */
  readonly #given = new Map<string, Given>();
  /** The challenges by the network that got them. */
  readonly #ofNetwork = new Map<string, Set<string>>();

  /** `now` is a clock in milliseconds that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** How many wait for an answer. */
  get size(): number {
    return this.#given.size;
  }

  /** A new challenge, in base64url. Those of the same network make room first: who asks for many takes none from others. */
  give(purpose: Purpose, { browser, network }: Pick<Given, 'browser' | 'network'>): string {
    const now = this.#now();
    for (const [challenge, { until }] of this.#given) {
      if (until > now) break;
      this.#drop(challenge);
    }
    const same = this.#ofNetwork.get(network) ?? new Set();
    const isTooMany = same.size >= LIMITS.passkeyChallengesOfNetwork;
    if (isTooMany || this.#given.size >= LIMITS.passkeyChallenges) {
      const [oldest = ''] = isTooMany ? same : this.#given.keys();
      this.#drop(oldest);
    }
    const challenge = randomBytes(32).toString('base64url');
    this.#given.set(challenge, { purpose, browser, network, until: now + LIMITS.passkeyMs });
    this.#ofNetwork.set(network, same.add(challenge));
    return challenge;
  }

  /** What a challenge was given for; null where this browser did not get it, or it was answered, or that was too long ago. */
  take(challenge: string, browser: string | null): Purpose | null {
    const given = this.#given.get(challenge);
    if (given === undefined || given.browser !== browser) return null;
    this.#drop(challenge);
    return given.until > this.#now() ? given.purpose : null;
  }

  #drop(challenge: string): void {
    const network = this.#given.get(challenge)?.network ?? '';
    this.#given.delete(challenge);
    const same = this.#ofNetwork.get(network);
    same?.delete(challenge);
    if (same?.size === 0) this.#ofNetwork.delete(network);
  }
}
