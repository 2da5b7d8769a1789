/** A gateway that was down when automations were due: with `catchUp` they run once at its start, without it not at all. */
import { Layout } from '../../../storage/layout.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
import { appOf } from '../../../testing/apps.ts';
import { eventually, pause } from '../../../testing/waiting.ts';
import type { CampaignContext } from '../campaign.ts';
import { runsOf } from './verify.ts';

const APP = 'due';
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** How long ago the missed fire was due, at most. Longer than what counts as late, and not as missed. */
const LONGEST_MISSED_MINUTES = 600;
/** Daemons that are killed in their first moments, while they may be about to run what was missed. */
const CUT_STARTS = 2;
const FIRED_MS = 30_000;

export async function missFires(context: CampaignContext, rounds: number): Promise<void> {
  const { random, report, progress } = context;
  const gateway = context.newGateway();

  function fires(): { caught: number; missed: number } {
    const runs = runsOf(gateway.dataDir);
    const count = (wanted: string) => runs.filter(({ app, id }) => app === APP && id === wanted).length;
    return { caught: count('caught'), missed: count('missed') };
  }

  /** Kills it, lets a time pass that was due, and starts it until it has fired. Leaves it stopped. */
  async function missOne(caught: number): Promise<void> {
    await gateway.kill();
    pretendDown(gateway.dataDir);
    for (let n = 0; n < CUT_STARTS; n++) {
      await gateway.start();
      await pause(random.between(0, 100));
      await gateway.kill();
    }
    await gateway.start();
    await eventually(FIRED_MS, () => fires().caught > caught);
    // What would come a second time comes at the next start.
    await gateway.stop();
    await gateway.start();
    await gateway.stop();
  }

  const due = new Date(Date.now() - random.between(2, LONGEST_MISSED_MINUTES) * MINUTE_MS);
  const cron = { kind: 'cron', expr: `${due.getUTCMinutes()} ${due.getUTCHours()} * * *`, tz: 'UTC' };
  const run = '() => {}';
  await gateway.start();
  const automations = { caught: { run, triggers: [{ ...cron, catchUp: true }] }, missed: { run, triggers: [cron] } };
  await gateway.install(APP, appOf(APP, { automations }));
  for (let round = 1; round <= rounds; round++) {
    const before = fires();
    await missOne(before.caught);
    const after = fires();
    const [caught, missed] = [after.caught - before.caught, after.missed - before.missed];
    report.add('restarts over a missed time: run once with catchUp, not at all without');
    if (caught !== 1 || missed !== 0) {
      report.violated(`due, round ${round}`, `with catchUp it ran ${caught} times, without ${missed} times.`);
      break;
    }
    await gateway.start();
  }
  progress(`${rounds} restarts over a time that was missed`);
}

/** As after two days in which no gateway ran: both fired last before them. Takes the directory of a dead one. */
function pretendDown(dataDir: string): void {
  const db = openSqlite(new Layout(dataDir).runtimeDb);
  try {
    const fired = db.prepare('INSERT OR REPLACE INTO cron_fired VALUES (?, ?, ?)');
    for (const id of ['caught', 'missed']) fired.run(APP, id, Date.now() - 2 * DAY_MS);
  } finally {
    db.close();
  }
}
