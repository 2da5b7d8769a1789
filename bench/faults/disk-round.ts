/** A round on a disk that takes no writes for a while: who writes hears of it, who reads and listens does not, and it heals. */
import { CLIENT_FAILED } from '../../testing/clients.ts';
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

/** Resolves when everybody is at work, and each query has been answered once: their databases are open then. */
export async function beginRound({ gateway, ledger, apps, queries }: Subjects, number: number) {
  const found: string[] = [];
  const load = new Load(gateway, { apps, clients: WRITERS, prefix: `d${number}` });
  const readers = new Readers(gateway, load, READERS, { also: queries });
  const watcher = new Watcher(gateway, apps[0] as string, null);
  for (const [app, query] of queries) await gateway.read(app, query);
  await load.more(10);
  await watcher.settled(0, HEAL_MS);

  function violated(what: string | string[]): void {
    found.push(...[what].flat());
  }

  /** The readers and the listener go before the power is cut. */
  async function dismiss(): Promise<void> {
    await Promise.all([readers.stop(), watcher.stop()]);
  }

  /** The disk is well again: everybody hears good things soon. Answers how soon those who write do, in milliseconds. */
  async function heal(): Promise<number> {
    const since = performance.now();
    const isLate = (await within(HEAL_MS, load.more(10))) === 'late';
    const healedMs = performance.now() - since;
    if (isLate)
      violated(`No write was acknowledged for ${HEAL_MS} ms after the disk was well again: ${load.outcomes.list()}.`);
    if (!(await watcher.tells(HEAL_MS))) violated('The stream of changes says nothing any more.');
    return healedMs;
  }

  /** Ends the round, and compares all that was acknowledged up to now with what is stored. */
  async function end(
    where: string,
    report: Report,
    { allowed, readsFail = false }: { allowed: RegExp; readsFail?: boolean },
  ) {
    await Promise.all([load.stop(), dismiss()]);
    ledger.add(load);
    const { reads, hits, failed, unanswered, violations } = readers;
    report.add('reads meanwhile', reads);
    report.add('of them answered with a kept result', hits);
    const faults = [
      ...failed.map(({ app, answer }) => `A read of ${app} was answered ${answer}`),
      ...unanswered.map(() => 'A read got no answer.'),
      ...watcher.ends.map(() => 'The stream of changes ended.'),
      ...watcher.violations,
    ];
    report.violated(where, [
      ...found,
      ...load.violations,
      ...violations,
      ...faults.filter((text) => text.startsWith(CLIENT_FAILED) || !(readsFail || IS_REFUSED.test(text))),
      ...[...load.outcomes.keys()].filter((one) => !allowed.test(one)).map((one) => `A write was answered ${one}.`),
      ...ledger.verify(gateway.dataDir).violations,
    ]);
  }

  return { load, violated, dismiss, heal, end };
}
