/**
 * Decides where the queries of an app run: in the commons, beside other quiet apps, or in a thread of its own. Pure.
 *
 * | Now | What happens | Then | Reason |
 * |---|---|---|---|
 * | either | the version says why it cannot be in the commons | own | `thread`, `state`, `modules` or `globals` |
 * | commons | an action is called | own | `action` |
 * | commons | more than `LIMITS.commonsCalls` calls in `commonsWindowMs` | own | `busy` |
 * | commons | its calls took more than `LIMITS.commonsWorkMs` in `commonsWindowMs` | own | `processor` |
 * | commons | its turns, timers included, took more than `commonsTurnsMs` in that window | own | `processor` |
 * | commons | it allocates too much, or its thread ran out of memory while it ran | own | `memory` |
 * | commons | it uses what the commons do not give, such as `ctx.fetch` | own | `globals` |
 * | commons | it stalled or ended its thread, or threw where nothing catches | own | `failed` |
 * | own: `action`, `busy`, `processor`, `memory` | its thread ends: idle, or to make room | commons | |
 * | own: `action`, `busy`, `processor`, `memory` | another version, while its thread runs | own, for the same reason | |
 * | own, whatever the reason | any other version, or a restart | commons, if that version can | |
 */
import { LIMITS } from '../../../protocol/limits.ts';
import type { OwnReason } from '../../../protocol/wire/commons.ts';

/** They end when the app is quiet again; the others stay as long as the version. */
const UNTIL_QUIET: ReadonlySet<OwnReason> = new Set(['action', 'busy', 'processor', 'memory']);

export class Place {
  /** Why it has a thread of its own; null in the commons. */
  reason: OwnReason | null;
  #windowStart = Number.NEGATIVE_INFINITY;
  #calls = 0;
  #workMs = 0;

  /** `kept` is why the version cannot be in the commons, if that is so. */
  constructor(kept: OwnReason | null) {
    this.reason = kept;
  }

  /** Another version, or a restart. */
  renew(kept: OwnReason | null): void {
    this.reason = kept;
    this.#windowStart = Number.NEGATIVE_INFINITY;
  }

  /** Another version takes over from a thread that runs. False where it is to begin anew, in the commons. */
  swap(kept: OwnReason | null): boolean {
    if (kept === null && this.reason !== null && !UNTIL_QUIET.has(this.reason)) return false;
    this.reason = kept ?? this.reason;
    return true;
  }

  /** It has to leave the commons. False when it has left before. */
  leave(reason: OwnReason): boolean {
    if (this.reason !== null) return false;
    this.reason = reason;
    return true;
  }

  /** Its thread ended because it rested. */
  rested(): void {
    if (this.reason !== null && UNTIL_QUIET.has(this.reason)) this.renew(null);
  }

  /** A call is about to run in the commons. Why it may not; null where it may. */
  called(now: number): OwnReason | null {
    if (now - this.#windowStart >= LIMITS.commonsWindowMs) {
      this.#windowStart = now;
      this.#calls = 0;
      this.#workMs = 0;
    }
    this.#calls++;
    if (this.#calls > LIMITS.commonsCalls) return 'busy';
    return this.#workMs > LIMITS.commonsWorkMs ? 'processor' : null;
  }

  /** A call in the commons ended; `ms` is how long its code ran. */
  worked(ms: number): void {
    this.#workMs += ms;
  }
}
