/** How many bytes of request bodies the process holds at once, over all connections. */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** What gives room to the bytes of bodies. */
export type BodyRoom = {
  /** False, with nothing taken, when there is no room for so many bytes more. */
  take(bytes: number): boolean;
  give(bytes: number): void;
};

export class BodyBudget implements BodyRoom {
  readonly #limit: number;
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes that were taken and not given back. */
  get held(): number {
    return this.#held;
  }

  take(bytes: number): boolean {
    if (this.#held + bytes > this.#limit) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** Of this process, whatever serves its requests. */
export const PROCESS_BODIES: BodyBudget = new BodyBudget(LIMITS.bodiesBytes);

/** `OVERLOADED` for a body that the budget has no room for. */
export function noRoomForBody(): SvcError {
  return new SvcError('OVERLOADED', 'The gateway has too many request bodies in memory; try again in a moment.', {
    headers: { 'retry-after': '1' },
  });
}
