/**
 * Limits the time for another process's answer. If this process itself did not run (it was stopped, or the machine slept), the
 * answer may still wait to be read. So the limit then restarts.
 */

/** Looks at the clock within one limit. */
const LOOKS = 4;

/** Calls `giveUp` after `ms`, unless what it answers is called before. `now` gives milliseconds. */
export function startGraceTimer(ms: number, now: () => number, giveUp: () => void): () => void {
  const everyMs = ms / LOOKS;
  let startedAt = now();
  let last = startedAt;
  let looks = 0;
  const look = () => {
    const at = now();
    if (at - last > 2 * Math.max(everyMs, MISSED_MS)) {
      startedAt = at;
      looks = 0;
    } else looks += 1;
    last = at;
    if (looks < LOOKS) lookLater();
    else giveUp();
  };
  const lookLater = () => {
    // From the start of the limit, so that small delays do not add up.
    timer = setTimeout(look, startedAt + (looks + 1) * everyMs - last);
  };
  let timer: NodeJS.Timeout;
  lookLater();
  return () => clearTimeout(timer);
}

/** A check may be this late on a busy machine. */
const MISSED_MS = 50;
