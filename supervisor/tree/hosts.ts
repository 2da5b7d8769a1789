/**
 * Places apps and their automations (both "apps" here, by their keys in the tree) on handler hosts: a fixed number of shared
 * ones, and solitary ones for suspects, so that a host that keeps dying for an unknown reason soon isolates the cause.
 */
import { createHash } from 'node:crypto';
import { LIMITS } from '../../protocol/limits.ts';
import type { Child } from './child.ts';

/** Apps that may have a separate host at a time. */
const SOLITARY_LIMIT = 4;

type HostsOptions = {
  count: number;
  /** `solitaryFor` is null for a shared host. */
  create(name: string, solitaryFor: string | null): Child;
  now: () => number;
};

export class Hosts {
  readonly #options: HostsOptions;
  readonly #shared: Child[] = [];
  readonly #solitary = new Map<string, Child>();
  /** For each shared host, the apps that were busy at its recent deaths, newest last. */
  readonly #suspects = new Map<Child, string[][]>();

  constructor(options: HostsOptions) {
    this.#options = options;
    for (let n = 1; n <= options.count; n++) this.#shared.push(options.create(`host-${n}`, null));
  }

  get all(): Child[] {
    return [...this.#shared, ...this.#solitary.values()];
  }

  start(): void {
    for (const host of this.#shared) host.start();
  }

  hostOf(app: string): Child {
    return this.#solitary.get(app) ?? place(app, this.#shared);
  }

  /** Notes the apps that were `busy`, with calls in flight, on a shared host that died without a known cause. */
  noteSuspects(host: Child, busy: string[]): void {
    const deaths = this.#suspects.get(host) ?? [];
    deaths.push(busy);
    this.#suspects.set(host, deaths.slice(-LIMITS.restartIntensity));
  }

  /**
   * A shared host exceeded its restart intensity: the apps that were busy at most of its deaths get separate hosts, and it
   * restarts for the others. Returns the moved apps.
   */
  moveSuspects(host: Child): string[] {
    const counts = new Map<string, number>();
    for (const busy of this.#suspects.get(host) ?? [])
      for (const app of busy) counts.set(app, (counts.get(app) ?? 0) + 1);
    this.#suspects.delete(host);
    const moved = [...counts]
      .filter(([app, deaths]) => deaths > 1 && !this.#solitary.has(app))
      .sort((a, b) => b[1] - a[1])
      .slice(0, SOLITARY_LIMIT - this.#solitary.size)
      .map(([app]) => app);
    for (const app of moved) this.isolate(app);
    host.revive();
    return moved;
  }

  /** Gives an app a separate host. False when there are too many of them. */
  isolate(app: string): boolean {
    if (this.#solitary.has(app)) return true;
    if (this.#solitary.size >= SOLITARY_LIMIT) return false;
    const host = this.#options.create(`host-for-${app}`, app);
    this.#solitary.set(app, host);
    host.start();
    return true;
  }

  /** Takes an app's separate host away: the app was cleared or quarantined. */
  async release(app: string): Promise<void> {
    const host = this.#solitary.get(app);
    this.#solitary.delete(app);
    await host?.stop(LIMITS.terminateMs);
  }

  /** Apps whose separate host has run long enough without dying: they go back to the others when they rest. */
  steadyApps(): string[] {
    const since = this.#options.now() - 2 * LIMITS.restartWindowMs;
    return [...this.#solitary]
      .filter(([, host]) => host.state === 'running' && host.startedAt < since)
      .map(([app]) => app);
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.all.map((host) => host.stop(graceMs)));
  }
}

/**
 * The host of `hosts` that runs an app: rendezvous hashing, so that a host that comes or goes moves only its own apps. Throws
 * when there is none.
 */
export function place<T extends { readonly name: string }>(app: string, hosts: readonly T[]): T {
  const score = ({ name }: T) => createHash('sha256').update(`${name}\0${app}`).digest().readUInt32BE(0);
  return hosts.reduce((best, host) => (score(host) > score(best) ? host : best));
}
