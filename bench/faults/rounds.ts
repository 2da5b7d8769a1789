/** Rounds of a campaign that strikes processes: clients work, a process is struck, and all works again. */
import type { TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { pause, within } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import type { CampaignContext, Tally } from './campaign.ts';

/** Who is struck, and by whom. */
export type Stretch = { context: CampaignContext; tally: Tally; random: Random; gateway: TestGateway };

export type Rounds<Victim extends string> = {
  choose(): Victim;
  /** Resolves when some of what the clients do has gone well. */
  working(where: string): Promise<unknown>;
  /** At most so many milliseconds later comes the strike. */
  pauseMs: number;
  /** Rejects when the gateway does not come back. */
  strike(where: string, victim: Victim): Promise<void>;
  /** Resolves when all works again, with what does not; `at` is when the strike began. */
  healed(at: number, where: string): Promise<string[]>;
  /** What `healed` waits for. */
  until: string;
};

/** Rounds number `first` to `last`. False when the gateway did not come back, so that there is no use in going on. */
export async function strikeInRounds<Victim extends string>(
  { context, tally, random, gateway }: Stretch,
  [first, last]: [number, number],
  { choose, working, pauseMs, strike, healed, until }: Rounds<Victim>,
): Promise<boolean> {
  for (let round = first; round <= last; round++) {
    const victim = choose();
    const where = `round ${round} (${victim})`;
    const giveUp = (what: string): false => {
      tally.violated(where, [what, `the daemon's last words: ${gateway.log.slice(-2000)}`]);
      return false;
    };
    if ((await within(HANG_MS, working(where))) === 'late') return giveUp('nothing went well before the kill.');
    await pause(random.between(0, pauseMs));
    const at = performance.now();
    try {
      await strike(where, victim);
    } catch (error) {
      return giveUp((error as Error).message);
    }
    const broken = await within(2 * HANG_MS, healed(at, where));
    if (broken === 'late') return giveUp('not all works again.');
    if (broken.length > 0) return giveUp(broken.join(' '));
    tally.measured(`${victim} killed, until ${until}`, performance.now() - at);
    tally.add('rounds', 1);
    if (round % 10 === 0) context.progress(`round ${round} of ${last}`);
  }
  return true;
}
