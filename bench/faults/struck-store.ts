/** The git store on a disk that is struck while publications go on: who is acknowledged is there afterwards, and live never breaks. */
import { pause } from '../../testing/waiting.ts';
import type { CampaignContext } from './campaign.ts';
import { Publications } from './publications.ts';
import { leftovers } from './stored.ts';
import { STORE_STRIKES } from './strikes.ts';
import { struckGateway } from './struck-gateway.ts';

const ROUNDS = { full: 60, smoke: 8 };

export async function strikeStore(context: CampaignContext): Promise<void> {
  const { report, progress } = context;
  const { gateway, disk, random } = struckGateway(context, { store: 'git' });
  const publications = new Publications(gateway, random.fork());
  const rounds = context.rounds ?? ROUNDS[context.extent];
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
    report.violated(`Git store, round ${round + 1} (${strike.name})`, found);
    report.add('git store: strikes');
    progress(`git store: ${round + 1} of ${rounds}: ${strike.name}`);
    if (found.length > 0) break;
  }
  report.addAll('git store: publications', publications.outcomes);
  report.figure('git store: acknowledged versions', publications.acknowledged);
  await gateway.stop();
  disk.close();
}
