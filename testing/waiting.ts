/** Waiting with a limit. */
import { setTimeout as pause } from 'node:timers/promises';

export { pause };

/** Far more than anything takes that a test awaits, so that no test fails on a busy machine. */
export const LIMIT_MS = 60_000;
/** For slow things: the start of a daemon, a call that waits for a large migration, a command. */
export const LONG_MS = 120_000;

/** The result of `promise`, or `late` if it takes longer than `ms`. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | 'late'> {
  const timer = new AbortController();
  const late = pause(ms, 'late' as const, { signal: timer.signal }).catch(() => 'late' as const);
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}

/** Whether it holds before `ms` have passed, asked every `everyMs`. */
export async function eventually(ms: number, holds: () => unknown, everyMs = 50): Promise<boolean> {
  for (const end = performance.now() + ms; !(await holds()); await pause(everyMs))
    if (performance.now() > end) return false;
  return true;
}

/** The result of `promise`; rejects with the name of the awaited thing if it takes longer than `ms`. */
export async function inTime<T>(promise: Promise<T>, what: string, ms: number = LIMIT_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  // Made here, so that its stack shows the waiting test.
  const late = new Error(`It did not come within ${ms / 1000} s: ${what}.`);
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_resolve, reject) => {
        timer = setTimeout(reject, ms, late);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
