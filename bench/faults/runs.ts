/** SIGKILL of each process while webhooks and the clock fire automations, and restarts over a time at which they were due. */
import type { Campaign } from './campaign.ts';
import { DueRounds } from './runs/due.ts';
import { RunsStretch } from './runs/stretch.ts';
import { Tally } from './tally.ts';

const ROUNDS = { full: 100, smoke: 3 };
const DUE_ROUNDS = { full: 10, smoke: 1 };

export const runs: Campaign = {
  name: 'runs',
  question:
    'Is every run that was answered stored as it ended, with what it wrote, when processes are killed, and does the clock miss or repeat a fire?',
  async run(context) {
    if (process.platform !== 'linux')
      return { figures: [], violations: [], skipped: ['Processes are found through /proc, which is Linux only.'] };
    const tally = new Tally();
    await Promise.all([
      new RunsStretch(context, tally, context.rounds ?? ROUNDS[context.extent]).run(),
      new DueRounds(context, tally).run(DUE_ROUNDS[context.extent]),
    ]);
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};
