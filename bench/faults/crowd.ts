/** All who use a gateway while it is broken, and the check of what they were told against what is stored. */
import type { TestGateway } from '../../testing/gateway.ts';
import { join } from '../../testing/people.ts';
import type { Random } from '../../testing/random.ts';
import { Ledger, Load, markedLedgerApp, type Write } from '../../testing/write-ledger.ts';
import type { Report } from './campaign.ts';
import { Readers } from './readers.ts';
import { Retriers } from './retriers.ts';
import { compareWatchers, type Told, Watcher } from './watchers.ts';

const APPS = ['ada', 'bob', 'cyd'];
const WRITERS = 6;
const RETRIERS = 3;
const READERS = 2;

/** A subscriber is told within this time, and one whose daemon died within this time of the next one's start. */
const TOLD_WITHIN_MS = 15_000;

/** A span of time, in milliseconds of `performance.now()`. */
export type Span = { from: number; to: number };

/** What was done to the gateway: when the supervisor was dead, when any process was ended, and when calls may time out. */
export type Troubles = { outages?: Span[]; deaths?: { at: number }[]; slow?: Span[] };

/** Installs the apps on a gateway that runs, and lets everybody in. */
export async function enterCrowd(gateway: TestGateway, random: Random) {
  for (const app of APPS) await gateway.install(app, markedLedgerApp(app));
  const steady = APPS.map((app) => new Watcher(gateway, app, null));
  const returning = APPS.map((app) => new Watcher(gateway, app, random.fork()));
  const load = new Load(gateway, { apps: APPS, clients: WRITERS });
  const retriers = new Retriers(gateway, { apps: APPS, clients: RETRIERS, prefix: 'k' });
  const grants = APPS.map((app) => ({ app, role: 'viewer' }));
  const people = [await join(gateway, 'Ann', { grants }), await join(gateway, 'Ben', { grants })];
  const readers = new Readers(gateway, load, READERS, { people });
  await load.healed(performance.now());

  /** Sends everybody home, checks what they saw, and reports what they did and were answered. */
  async function leave(where: string, troubles: Troubles, report: Report): Promise<void> {
    await Promise.all([load, retriers, readers].map((clients) => clients.stop()));
    await Promise.all(steady.map((watcher) => watcher.settled(300, 5000)));
    await Promise.all([...steady, ...returning].map((watcher) => watcher.stop()));
    const ledger = new Ledger();
    for (const clients of [load, retriers]) ledger.add(clients);
    const { violations, lost, stored } = ledger.verify(gateway.dataDir);
    for (const { violations: heard } of [load, retriers, readers]) report.violated(where, heard);
    report.violated(where, [
      ...violations,
      ...checkAnswers(troubles),
      ...checkReads(troubles),
      ...checkStreams(troubles),
      ...checkTold(steady, load, retriers, stored, troubles),
    ]);
    report.add('acknowledged writes', ledger.acknowledged.length);
    report.add('acknowledged writes that were lost', lost);
    report.addAll('writes', load.outcomes);
    report.add('calls repeated with their idempotency key', retriers.repeats);
    report.add('of them answered from the record', retriers.replayed);
    report.addAll('writes with an idempotency key', retriers.outcomes);
    report.add('reads', readers.reads);
    report.add('of them answered with a kept result', readers.hits);
    report.add('reads answered with an error', readers.failed.length);
    for (const { told } of steady) report.add('events on the steady change streams', told.length);
  }

  /** While the supervisor lives every call is answered, and with a code that says what happened. */
  function checkAnswers({ outages = [] }: Troubles): string[] {
    const violations = load.unanswered
      .filter(({ sentAt, answeredAt }) => !overlaps(outages, sentAt, answeredAt))
      .map(({ key }) => `${key} got no answer though the supervisor lived.`);
    const expected = /^(20\d|no answer|500 HANDLER_ERROR)$/;
    for (const [outcome, count] of load.outcomes)
      if (!expected.test(outcome)) violations.push(`${count} writes were answered ${outcome}.`);
    return violations;
  }

  /** A read runs once more when its process dies: only two deaths in its time may fail it. */
  function checkReads({ outages = [], deaths = [], slow = [] }: Troubles): string[] {
    const failed = readers.failed
      .filter(({ sentAt, answeredAt }) => deaths.filter(({ at }) => at > sentAt - 50 && at < answeredAt).length < 2)
      .filter(({ sentAt, answeredAt }) => !overlaps(slow, sentAt, answeredAt))
      .map(({ app, answer }) => `A read of ${app} failed: ${answer}`);
    const unanswered = readers.unanswered
      .filter(({ sentAt, answeredAt }) => !overlaps(outages, sentAt, answeredAt))
      .map(() => 'A read got no answer though the supervisor lived.');
    return [...failed, ...unanswered];
  }

  function checkStreams({ outages = [] }: Troubles): string[] {
    const violations = steady.flatMap((one, i) => compareWatchers(one, returning[i] as Watcher));
    for (const watcher of [...steady, ...returning]) {
      violations.push(...watcher.violations);
      for (const at of watcher.ends)
        if (!overlaps(outages, at - 100, at)) violations.push(`A stream of ${watcher.app} ended by itself.`);
    }
    return violations;
  }

  return { load, leave };
}

/**
 * Every acknowledged write has its event on a stream that was open since before it, no failed one has, and whatever is
 * stored without having been acknowledged is covered by a `reset`.
 */
function checkTold(
  steady: Watcher[],
  load: Load,
  retriers: Retriers,
  stored: Set<string>,
  { outages = [] }: Troubles,
): string[] {
  const violations: string[] = [];
  const acknowledged = new Set([...load.acknowledged, ...retriers.acknowledged]);
  const unanswered = new Set(load.unanswered);
  for (const watcher of steady) {
    const writes = (from: Pick<Load, 'sent'>) => [...from.sent.values()].filter(({ app }) => app === watcher.app);
    const keyed = new Set(writes(retriers));
    const all = [...writes(load), ...keyed];
    for (const { daemon, openedAt } of watcher.connections) {
      const told = watcher.told.filter((one) => one.daemon === daemon && one.kind === 'change');
      const asked = all.filter((write) => write.daemon === daemon && write.answeredAt > openedAt);
      for (const action of new Set(all.map((write) => write.action))) {
        const events = told.filter((one) => one.action === action).length;
        const mine = asked.filter((write) => write.action === action);
        // A client that repeats may get its answer from a later daemon than it asked first, and either may tell of it.
        const sure = mine.filter((w) => acknowledged.has(w) && !keyed.has(w) && w.sentAt > openedAt).length;
        const possible = mine.filter((w) => acknowledged.has(w) || keyed.has(w) || unanswered.has(w));
        const resumed = [...keyed].filter(
          (w) => w.action === action && w.daemon !== daemon && w.sentAt < openedAt && w.answeredAt > openedAt,
        ).length;
        if (events < sure || events > possible.length + resumed)
          violations.push(
            `${watcher.app}: ${events} events tell of ${action}, of which ${sure} to ${possible.length + resumed} were done.`,
          );
      }
    }
    const resets = watcher.told.filter((one) => one.kind === 'reset');
    for (const write of all) {
      if (!stored.has(write.key) || acknowledged.has(write) || covered(resets, write, outages)) continue;
      violations.push(`${write.key} failed and is stored in ${watcher.app}, and no reset tells of it.`);
    }
  }
  return violations;
}

/** A `reset` that came when the write may have been done already, and not long after its failure or the outage that it fell into. */
function covered(resets: Told[], { sentAt, answeredAt }: Write, outages: Span[]): boolean {
  const ends = outages.filter((outage) => overlaps([outage], sentAt, answeredAt)).map(({ to }) => to);
  return resets.some(({ at }) => at >= sentAt && at <= Math.max(answeredAt, ...ends) + TOLD_WITHIN_MS);
}

export function overlaps(outages: Span[], from: number, to: number): boolean {
  return outages.some((outage) => from <= outage.to && to >= outage.from);
}
