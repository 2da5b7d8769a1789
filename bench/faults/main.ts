/** `npm run faults`: breaks the built daemon in every way it must survive, and says what was lost. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { gatewayIn, type TestGateway } from '../../testing/gateway.ts';
import { Random } from '../../testing/random.ts';
import { chosen, parseWords, runCommand, UsageError, wholeNumber } from '../command.ts';
import { describeMachine, type Machine } from '../machine.ts';
import { table } from '../report-tables.ts';
import { ROOT } from '../servers.ts';
import { type Campaign, Report } from './campaign.ts';
import { clients } from './clients/campaign.ts';
import { cluster } from './cluster/campaign.ts';
import { crash } from './crash/campaign.ts';
import { disk } from './disk.ts';
import { kill } from './kill.ts';
import { power } from './power.ts';
import { runaway } from './runaway.ts';
import { runs } from './runs.ts';
import { smuggling } from './smuggling/campaign.ts';
import { stop } from './stop.ts';
import { turns } from './turns.ts';

const CAMPAIGNS: Campaign[] = [kill, runs, turns, stop, power, disk, crash, runaway, clients, smuggling, cluster];
const RESULTS = join(ROOT, 'bench/results');

type FaultsReport = {
  takenAt: string;
  seed: number;
  machine: Machine;
  campaigns: (Pick<Report, 'figures' | 'violations' | 'skipped'> & {
    name: string;
    question: string;
    seconds: number;
  })[];
};

const HELP = `npm run faults -- [campaign …] [options]

  --seed N     replays the random choices of an earlier run (printed at its start)
  --rounds N   rounds of each campaign that has rounds
  --only TEXT  operations whose name has this text (crash)
  --smoke      every campaign, as short as CI runs it

Campaigns:
${CAMPAIGNS.map(({ name, question }) => `  ${name.padEnd(10)}${question}\n`).join('')}`;

function parse(args: string[]) {
  const { values, flags, positionals } = parseWords(args, {
    seed: 'string',
    rounds: 'string',
    only: 'string',
    smoke: 'boolean',
  });
  return {
    campaigns: chosen('campaign', CAMPAIGNS, positionals),
    seed: wholeNumber('--seed', values.seed, 0) ?? Date.now() >>> 0,
    rounds: wholeNumber('--rounds', values.rounds, 1),
    only: values.only ?? null,
    smoke: flags.smoke ?? false,
  };
}

async function main(args: string[]): Promise<number> {
  const options = parse(args);
  if (process.platform !== 'linux') throw new UsageError('Processes are found through /proc, which is Linux only.');
  const takenAt = new Date().toISOString();
  const workDir = mkdtempSync(join(tmpdir(), 'svc-faults-'));
  const report: FaultsReport = { takenAt, seed: options.seed, machine: describeMachine(workDir), campaigns: [] };
  process.stderr.write(`seed ${options.seed}\n`);
  for (const { name, question, run, whyNot } of options.campaigns) {
    process.stderr.write(`${name}: ${question}\n`);
    const startedAt = Date.now();
    const own = new Report();
    const gateways: TestGateway[] = [];
    const newFolder = () => mkdtempSync(join(workDir, `${name}-`));
    const missing = whyNot?.() ?? null;
    if (missing !== null) own.skipped.push(`All of it: ${missing}.`);
    else
      await run({
        // Each campaign's choices depend on the seed alone, not on which campaigns ran before it.
        random: new Random(options.seed),
        extent: options.smoke ? 'smoke' : 'full',
        rounds: options.rounds,
        only: options.only,
        report: own,
        newFolder,
        newGateway: (start = {}, folder = newFolder()) => {
          const gateway = gatewayIn(folder, start);
          gateways.push(gateway);
          return gateway;
        },
        progress: (text) => process.stderr.write(`  ${text}\n`),
      }).catch((error: Error) => own.violations.push(`It ended early: ${error.stack}`));
    // An orderly end takes along what would outlive a killed supervisor, such as a writer in a statement without end.
    await Promise.allSettled(gateways.map((gateway) => gateway.stop()));
    await Promise.allSettled(gateways.map((gateway) => gateway.kill()));
    const { figures, violations, skipped } = own;
    if (process.env.CI) violations.push(...skipped.map((what) => `Skipped in CI: ${what}`));
    const seconds = (Date.now() - startedAt) / 1000;
    report.campaigns.push({ name, question, seconds, figures, violations, skipped });
  }
  mkdirSync(RESULTS, { recursive: true });
  const base = join(RESULTS, `faults-${takenAt.replaceAll(/[:.]/g, '-')}`);
  writeFileSync(`${base}.json`, `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(`${base}.md`, toMarkdown(report));
  process.stdout.write(`\n${toMarkdown(report)}\nWritten to ${relative(ROOT, base)}.md and .json beside it.\n`);
  const failed = report.campaigns.some(({ violations }) => violations.length > 0);
  if (!failed) {
    rmSync(workDir, { recursive: true, force: true });
    return 0;
  }
  process.stdout.write(`What the daemons left is kept in ${workDir}.\n\n${summaryOfFailures(report)}`);
  return 1;
}

function toMarkdown({ takenAt, seed, machine, campaigns }: FaultsReport): string {
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
function summaryOfFailures({ seed, campaigns }: FaultsReport): string {
  const lines = campaigns.flatMap(({ name, violations }) => violations.map((what) => `- ${name}: ${what}`));
  return `FAILED with seed ${seed}:\n${lines.join('\n')}\n`;
}

// A campaign that ended early leaves its load behind, which would go on for ever.
process.exit(await runCommand(HELP, main));
