/** What is known to be wrong with the data of apps and drafts, by their keys, until its repair or the next start. */
import type { Logger } from 'pino';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Layout } from '../layout.ts';
import { type Damage, damagedData, diskFaultOf, unreadableData } from './app-data.ts';

type DamagesOptions = {
  layout: Layout;
  /** Whether SQLite finds nothing wrong with a database; without it, what was noted stays. */
  isWhole?: ((file: string) => Promise<boolean>) | undefined;
  /** The data of an app is known to be lost. */
  onLost?: ((key: string) => void) | undefined;
  log: Logger;
  now(): number;
};

export class Damages {
  readonly #options: DamagesOptions;
  readonly #known = new Map<string, Damage>();
  /** When the disk could not read the data, and what it said. */
  readonly #faults = new Map<string, { at: number; fault: string }>();
  /** Reads of data in which damage was met. */
  readonly #reading = new Map<string, Promise<string | null>>();
  /** Whose data was checked after damage was met: once is enough, for a check may miss what a query meets. */
  readonly #checked = new Set<string>();

  constructor(options: DamagesOptions) {
    this.#options = options;
  }

  /** Null where nothing is known to be wrong. */
  of(key: string): Damage | null {
    return this.#known.get(key) ?? null;
  }

  /** Logs it once. */
  note(key: string, damage: Damage): void {
    const known = this.of(key);
    if (known !== null && (known.lost || !damage.lost)) return;
    this.#known.set(key, damage);
    this.#options.log.error({ app: key }, damagedData(key, damage).message);
    if (damage.lost) this.#options.onLost?.(key);
  }

  /**
   * Takes the report of a process that met damage. Resolves with the error for its caller. That is the error of the disk where that
   * cannot read the data, or could not a moment ago, else that of the damage, which is noted. Never rejects.
   */
  async report(key: string, damage: Damage): Promise<SvcError> {
    const { layout, now } = this.#options;
    if (!damage.lost && this.of(key) === null) {
      const reading = this.#reading.get(key) ?? diskFaultOf(layout.app(key));
      this.#reading.set(key, reading);
      const fault = await reading.finally(() => this.#reading.delete(key));
      if (fault !== null) this.#faults.set(key, { at: now(), fault });
      const last = this.#faults.get(key);
      if (last !== undefined && now() - last.at < LIMITS.diskFaultMs) return unreadableData(key, last.fault);
    }
    this.note(key, damage);
    if (this.#known.get(key) === damage && !damage.lost) void this.#checkOnce(key, damage);
    return damagedData(key, damage);
  }

  /** The data was repaired or is another now. */
  forget(key: string): void {
    this.#known.delete(key);
    this.#checked.delete(key);
  }

  /** What was noted of data that is whole, because one read of the disk had failed, is dropped. */
  async #checkOnce(key: string, damage: Damage): Promise<void> {
    const { layout, log, isWhole = never } = this.#options;
    if (this.#checked.has(key)) return;
    this.#checked.add(key);
    if (!(await isWhole(layout.app(key).data).catch(never)) || this.#known.get(key) !== damage) return;
    this.#known.delete(key);
    log.warn({ app: key }, 'The data of an app is whole after all: the disk had failed to read it for a moment.');
  }
}

async function never(): Promise<false> {
  return false;
}
