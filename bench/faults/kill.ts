/** SIGKILL of each process, of two, and of all, at seeded moments under load. */
import type { Campaign } from './campaign.ts';
import { KillStretch } from './kill-stretch.ts';
import { Tally } from './tally.ts';

const ROUNDS = { full: 300, smoke: 30 };
/** Rounds on one data directory, so that what repairs leave behind adds up, before a fresh one. */
const ROUNDS_A_FOLDER = 50;

export const kill: Campaign = {
  name: 'kill',
  question:
    'Is every acknowledged write there, once and whole, when processes are killed under load, and how soon does all work again?',
  async run(context) {
    if (process.platform !== 'linux')
      return { figures: [], violations: [], skipped: ['Processes are found through /proc, which is Linux only.'] };
    const rounds = context.rounds ?? ROUNDS[context.extent];
    const tally = new Tally();
    for (let done = 0; done < rounds; done += ROUNDS_A_FOLDER) {
      const stretch = new KillStretch(context, tally, done + 1, Math.min(rounds, done + ROUNDS_A_FOLDER));
      if (!(await stretch.run())) break;
    }
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};
