/** All lanes of the writer: who has its turn, which files are open, and when they are closed. */
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import type { Clock } from './clock.ts';
import type { Database } from './database.ts';
import { type Asker, type Counters, Lane, type LaneTools, newCounters } from './lane.ts';

const DRAIN_POLL_MS = 10;

/** What the lanes need from outside. */
export type LanesOptions = Pick<LaneTools, 'clock' | 'pulse' | 'open' | 'migrate' | 'checkpoint'>;

export class Lanes {
  readonly counters: Counters = newCounters();
  readonly #clock: Clock;
  readonly #tools: LaneTools;
  readonly #lanes = new Map<string, Lane>();
  readonly #ready = new Set<Lane>();
  #roundScheduled = false;
  // Above every number that an earlier writer gave, as long as it began fewer than a thousand transactions a millisecond.
  #lastTx = Date.now() * 1000;

  constructor(options: LanesOptions) {
    this.#clock = options.clock;
    this.#tools = {
      ...options,
      counters: this.counters,
      open: (file) => this.#open(file, options.open),
      ready: (lane) => this.#schedule(lane),
      nextTx: () => ++this.#lastTx,
    };
  }

  /** Databases that are open. */
  get open(): number {
    let count = 0;
    for (const lane of this.#lanes.values()) if (lane.isOpen) count++;
    return count;
  }

  /** The lane of `file`; `name` is what the supervisor calls it. */
  join(file: string, name: string, asker: Asker): Lane {
    let lane = this.#lanes.get(file);
    if (!lane) {
      lane = new Lane(file, name, this.#tools);
      this.#lanes.set(file, lane);
    }
    lane.join(asker);
    return lane;
  }

  leave(lane: Lane, asker: Asker): void {
    lane.leave(asker);
    if (!lane.hasAskers) this.#retireLater(lane);
  }

  /** Resolves once everything that was accepted is done and every file is closed. */
  async drain(): Promise<void> {
    do await delay(DRAIN_POLL_MS);
    while ([...this.#lanes.values()].some((lane) => !lane.isQuiet));
    // The last answers are on their way out.
    await delay(DRAIN_POLL_MS);
    for (const lane of this.#lanes.values()) lane.close();
  }

  #schedule(lane: Lane): void {
    this.#ready.add(lane);
    if (this.#roundScheduled) return;
    this.#roundScheduled = true;
    setImmediate(this.#round);
  }

  /** One lane at a time: between two commits, answers go out and requests come in. */
  readonly #round = (): void => {
    const [lane] = this.#ready;
    if (lane) {
      this.#ready.delete(lane);
      lane.turn();
    }
    this.#roundScheduled = this.#ready.size > 0;
    if (this.#roundScheduled) setImmediate(this.#round);
  };

  #open(file: string, open: LaneTools['open']): Database {
    if (this.open >= LIMITS.openDatabases) {
      let oldest: Lane | null = null;
      for (const lane of this.#lanes.values()) {
        if (lane.isOpen && lane.isQuiet && (!oldest || lane.lastUsed < oldest.lastUsed)) oldest = lane;
      }
      oldest?.close();
    }
    return open(file);
  }

  #retireLater(lane: Lane): void {
    this.#clock.after(LIMITS.databaseIdleMs, () => {
      if (lane.hasAskers || this.#lanes.get(lane.file) !== lane) return;
      if (!lane.isQuiet) {
        this.#retireLater(lane);
        return;
      }
      lane.close();
      this.#lanes.delete(lane.file);
    });
  }
}
