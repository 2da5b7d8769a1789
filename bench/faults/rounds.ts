/** Rounds of a campaign that strikes processes: clients work, a process is struck, and all works again. */
import { HANG_MS } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { pause, within } from '../../testing/waiting.ts';
import type { CampaignContext, Report } from './campaign.ts';

export type Rounds<Victim extends string> = {
  /** Of the first and the last one. */
  numbers: [number, number];
  choose(): Victim;
  /** Resolves when some of what the clients do has gone well. */
  working(): Promise<unknown>;
  /** At most so many milliseconds later comes the strike. */
  pauseMs: number;
  /** Rejects when the gateway does not come back. */
  strike(where: string, victim: Victim): Promise<void>;
  /** Resolves when all works again; rejects with what does not. */
  healed(since: number): Promise<unknown>;
  /** What `healed` waits for. */
  until: string;
};

/** False when the gateway did not come back, so that there is no use in going on. */
export async function strikeInRounds<Victim extends string>(
  { random, report, progress }: CampaignContext,
  gateway: TestGateway,
  rounds: Rounds<Victim>,
): Promise<boolean> {
  const [first, last] = rounds.numbers;
  for (let round = first; round <= last; round++) {
    const victim = rounds.choose();
    const where = `round ${round} (${victim})`;
    const giveUp = (what: string): false => {
      report.violated(where, [what, `the daemon's last words: ${gateway.log.slice(-2000)}`]);
      return false;
    };
    if ((await within(HANG_MS, rounds.working())) === 'late') return giveUp('nothing went well before the kill.');
    await pause(random.between(0, rounds.pauseMs));
    const since = performance.now();
    try {
      await rounds.strike(where, victim);
      if ((await within(2 * HANG_MS, rounds.healed(since))) === 'late') return giveUp('not all works again.');
      report.measured(`${victim} killed, until ${rounds.until}`, performance.now() - since);
    } catch (error) {
      return giveUp((error as Error).message);
    }
    report.add('rounds');
    if (round % 10 === 0) progress(`round ${round} of ${last}`);
  }
  return true;
}

/** Asks the gateway to stop, which it must do in good order. */
export async function stopWell(gateway: TestGateway, report: Report): Promise<void> {
  const code = await gateway.stop();
  if (code !== 0) report.violated('the stop', `it ended with code ${code}: ${gateway.log.slice(-500)}`);
}
