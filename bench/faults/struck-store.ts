/** The git store on a disk that is struck while publications go on: who is acknowledged is there afterwards, and live never breaks. */
import { pause } from '../../testing/waiting.ts';
import type { CampaignContext, CampaignReport } from './campaign.ts';
import { Publications } from './publications.ts';
import { leftovers } from './remains.ts';
import { STORE_STRIKES } from './strikes.ts';
import { StruckGateway } from './struck-gateway.ts';

const ROUNDS = { full: 60, smoke: 8 };

export async function strikeStore(context: CampaignContext, report: CampaignReport): Promise<void> {
  const struck = new StruckGateway(context, { store: 'git' });
  const { gateway, disk, random } = struck;
  const publications = new Publications(gateway, random.fork());
  const rounds = context.rounds ?? ROUNDS[context.extent];
  try {
    await gateway.start();
    await publications.begin();
    for (let round = 0; round < rounds; round++) {
      const strike = STORE_STRIKES[round % STORE_STRIKES.length] as (typeof STORE_STRIKES)[number];
      publications.start();
      await pause(random.between(0, 300));
      disk.strike(strike.faults, strike.only);
      await pause(random.between(300, 1500));
      disk.strike([]);
      await publications.stop();
      const found = [...(await publications.check()), ...leftovers(gateway.dataDir)];
      report.violations.push(...found.map((text) => `Git store, round ${round + 1} (${strike.name}): ${text}`));
      context.progress(`git store: ${round + 1} of ${rounds}: ${strike.name}`);
      if (found.length > 0) return;
    }
  } finally {
    await struck.end();
  }
  report.figures.push(
    { name: 'git store: strikes', value: String(rounds) },
    { name: 'git store: publications', value: publications.outcomes.list() },
    { name: 'git store: acknowledged versions, all there', value: String(publications.acknowledged) },
  );
}
