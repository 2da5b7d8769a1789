/** Which handler host runs an app: rendezvous hashing, so that a host that comes or goes moves only its own apps. Pure. */
import { createHash } from 'node:crypto';

/** The host of `hosts` with the highest score for this app. Throws when there is none. */
export function place<T extends { readonly name: string }>(app: string, hosts: readonly T[]): T {
  let best: T | undefined;
  let bestScore = -1;
  for (const host of hosts) {
    const score = createHash('sha256').update(`${host.name}\0${app}`).digest().readUInt32BE(0);
    if (score > bestScore) {
      best = host;
      bestScore = score;
    }
  }
  if (!best) throw new Error('There is no handler host to place an app on.');
  return best;
}
