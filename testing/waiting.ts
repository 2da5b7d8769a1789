/** Waiting with a limit. */
import { setTimeout as pause } from 'node:timers/promises';

export { pause };

/** What `promise` gives, or `late` when it takes longer than `ms`. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | 'late'> {
  const timer = new AbortController();
  const late = pause(ms, 'late' as const, { signal: timer.signal }).catch(() => 'late' as const);
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}
