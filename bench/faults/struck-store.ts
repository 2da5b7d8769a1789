/** The git store on a disk that is struck while publications go on: who is acknowledged is there afterwards, and live never breaks. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestGateway } from '../../testing/gateway.ts';
import { type Fault, FaultyDisk } from '../../testing/shim/disk.ts';
import { pause } from '../../testing/waiting.ts';
import type { CampaignContext, CampaignReport } from './campaign.ts';
import { Publications } from './publications.ts';
import { leftovers, list } from './remains.ts';

const ROUNDS = { full: 60, smoke: 8 };

/** What fails, and where: all paths that hold the text. */
const STRIKES: { name: string; faults: Fault[]; only: string }[] = [
  { name: 'everything is full', faults: ['full'], only: '' },
  { name: 'the repository is full', faults: ['full'], only: 'apps.git' },
  { name: 'fsync fails everywhere', faults: ['syncEio'], only: '' },
  { name: 'writes are short', faults: ['short'], only: '' },
  { name: 'writing fails in the repository', faults: ['writeEio'], only: 'apps.git' },
  { name: 'sessions find no room', faults: ['full'], only: 'worktrees/sessions' },
  { name: 'pointers and notes find no room', faults: ['full'], only: '.json' },
  { name: 'fsync fails on data and its log', faults: ['syncEio'], only: 'data.sqlite' },
  { name: 'names find no room', faults: ['full'], only: '.lock' },
  { name: 'fsync fails in the repository', faults: ['syncEio'], only: 'apps.git' },
];

export async function strikeStore(context: CampaignContext, report: CampaignReport): Promise<void> {
  const folder = context.newFolder();
  const dataDir = join(folder, 'data');
  const disk = new FaultyDisk(dataDir, join(folder, 'disk'));
  const config = join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ log: 'warn' }));
  const gateway = new TestGateway(dataDir, ['--config', config, '--store', 'git'], disk.env);
  const random = context.random.fork();
  const publications = new Publications(gateway, random.fork());
  const rounds = context.rounds ?? ROUNDS[context.extent];
  try {
    await gateway.start();
    await publications.begin();
    for (let round = 0; round < rounds; round++) {
      const strike = STRIKES[round % STRIKES.length] as (typeof STRIKES)[number];
      publications.start();
      await pause(random.between(0, 300));
      disk.strike(strike.faults, strike.only);
      await pause(random.between(300, 1500));
      disk.strike([]);
      await publications.stop();
      const found = [...(await publications.check()), ...leftovers(dataDir)];
      report.violations.push(...found.map((text) => `Git store, round ${round + 1} (${strike.name}): ${text}`));
      context.progress(`git store: ${round + 1} of ${rounds}: ${strike.name}`);
      if (found.length > 0) return;
    }
  } finally {
    disk.strike([]);
    await gateway.stop();
    disk.close();
  }
  report.figures.push(
    { name: 'git store: strikes', value: String(rounds) },
    { name: 'git store: publications', value: list(publications.outcomes) },
    { name: 'git store: acknowledged versions, all there', value: String(publications.acknowledged) },
  );
}
