/** The outcome of a run of fault campaigns as Markdown. */
import type { Machine } from '../machine.ts';
import { table } from '../report-tables.ts';
import type { Report } from './campaign.ts';

export type FaultsReport = {
  takenAt: string;
  seed: number;
  machine: Machine;
  campaigns: (Pick<Report, 'figures' | 'violations' | 'skipped'> & {
    name: string;
    question: string;
    seconds: number;
  })[];
};

export function toMarkdown({ takenAt, seed, machine, campaigns }: FaultsReport): string {
  const head = [
    `# Faults, ${takenAt}, seed ${seed}`,
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.kernel}; Node ${machine.node}; data on ${machine.fileSystem}.`,
  ];
  const parts = campaigns.flatMap(({ name, question, seconds, figures, violations, skipped }) => [
    `## ${name}`,
    `${question} ${violations.length === 0 ? 'Passed' : 'FAILED'} in ${seconds.toFixed(0)} s.`,
    table({ What: ({ name: what }) => what, Value: ({ value }) => value }, figures),
    ...violations.map((what) => `- **violated**: ${what}`),
    ...skipped.map((what) => `- skipped: ${what}`),
  ]);
  return `${[...head, ...parts].join('\n\n')}\n`;
}

/** What failed, once more and shortly: the end of a log is all that some people see of it. */
export function summaryOfFailures({ seed, campaigns }: FaultsReport): string {
  const lines = campaigns.flatMap(({ name, violations }) => violations.map((what) => `- ${name}: ${what}`));
  return `FAILED with seed ${seed}:\n${lines.join('\n')}\n`;
}
