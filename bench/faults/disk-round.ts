/** A round on a disk that takes no writes for a while: who writes hears of it, who reads and listens does not, and it heals. */
import type { TestGateway } from '../../testing/gateway.ts';
import { within } from '../../testing/waiting.ts';
import { type Ledger, Load } from '../../testing/write-ledger.ts';
import type { Report } from './campaign.ts';
import { Readers } from './readers.ts';
import { Watcher } from './watchers.ts';

const WRITERS = 6;
const READERS = 2;
/** Within this after the disk is well again, everything must be as before. */
const HEAL_MS = 20_000;
/** While the token is being replaced, the old one is refused. */
const IS_REFUSED = /UNAUTHORIZED|was answered 401\.$/;

export type Subjects = {
  gateway: TestGateway;
  /** What was acknowledged in all rounds. */
  ledger: Ledger;
  /** Those that are written to; somebody listens to the first. */
  apps: string[];
  /** Queries that are to be answered all the time. */
  queries: [app: string, query: string][];
};

export class DiskRound {
  readonly load: Load;
  readonly #subjects: Subjects;
  readonly #readers: Readers;
  readonly #watcher: Watcher;
  readonly #found: string[] = [];

  private constructor(subjects: Subjects, number: number) {
    const { gateway, apps, queries } = subjects;
    this.#subjects = subjects;
    this.load = new Load(gateway, { apps, clients: WRITERS, prefix: `d${number}` });
    this.#readers = new Readers(gateway, this.load, READERS, queries);
    this.#watcher = new Watcher(gateway, apps[0] as string, null);
  }

  /** Resolves when everybody is at work, and each query has been answered once: their databases are open then. */
  static async begin(subjects: Subjects, number: number): Promise<DiskRound> {
    const round = new DiskRound(subjects, number);
    for (const [app, query] of subjects.queries) await subjects.gateway.read(app, query);
    await round.load.more(10);
    await round.#watcher.settled(0, HEAL_MS);
    return round;
  }

  violated(what: string | string[]): void {
    this.#found.push(...[what].flat());
  }

  /** The readers and the listener go before the power is cut. */
  async dismiss(): Promise<void> {
    await Promise.all([this.#readers.stop(), this.#watcher.stop()]);
  }

  /** The disk is well again: everybody hears good things soon. Answers how soon those who write do, in milliseconds. */
  async heal(): Promise<number> {
    const since = performance.now();
    const isLate = (await within(HEAL_MS, this.load.more(10))) === 'late';
    const healedMs = performance.now() - since;
    if (isLate)
      this.violated(
        `No write was acknowledged for ${HEAL_MS} ms after the disk was well again: ${this.load.outcomes.list()}.`,
      );
    if (!(await this.#watcher.tells(HEAL_MS))) this.violated('The stream of changes says nothing any more.');
    return healedMs;
  }

  /** Ends the round, and compares all that was acknowledged up to now with what is stored. */
  async end(where: string, report: Report, { allowed, readsFail = false }: { allowed: RegExp; readsFail?: boolean }) {
    const { gateway, ledger } = this.#subjects;
    const { load } = this;
    await Promise.all([load.stop(), this.dismiss()]);
    ledger.add(load);
    const { reads, hits, failed, unanswered, violations } = this.#readers;
    report.add('reads meanwhile', reads);
    report.add('of them answered with a kept result', hits);
    const faults = [
      ...failed.map(({ app, answer }) => `A read of ${app} was answered ${answer}`),
      ...unanswered.map(() => 'A read got no answer.'),
      ...this.#watcher.ends.map(() => 'The stream of changes ended.'),
      ...this.#watcher.violations,
    ];
    report.violated(where, [
      ...this.#found,
      ...load.violations,
      ...violations,
      ...(readsFail ? [] : faults.filter((text) => !IS_REFUSED.test(text))),
      ...[...load.outcomes.keys()].filter((one) => !allowed.test(one)).map((one) => `A write was answered ${one}.`),
      ...ledger.verify(gateway.dataDir).violations,
    ]);
  }
}
