/** What a fault campaign is, and what it says of itself. */
import type { Random } from '../../testing/random.ts';

export type CampaignContext = {
  random: Random;
  /** How far to go: `full` is what the documents state, `smoke` what CI runs. */
  extent: 'full' | 'smoke';
  /** Rounds asked for on the command line; null for the campaign's own number. */
  rounds: number | null;
  /** Only operations whose name has this text; null for all. For campaigns that have operations. */
  only: string | null;
  /** A new empty folder, removed at the end of a run without violations and kept otherwise. */
  newFolder(): string;
  progress(text: string): void;
};

export type Figure = { name: string; value: string };

export type CampaignReport = {
  /** What was done how often, and what was measured while it was; one row each. */
  figures: Figure[];
  /** What must not be and was: each a sentence that names the round. Empty when the campaign passed. */
  violations: string[];
  /** Parts that this machine could not run, with what is missing. In CI each counts as a violation. */
  skipped: string[];
};

export type Campaign = {
  name: string;
  /** The question it answers, in one sentence. */
  question: string;
  run(context: CampaignContext): Promise<CampaignReport>;
};
