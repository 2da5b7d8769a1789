/** `npm run faults -- clients`: slow, silent, greedy and vanishing clients beside good ones, on both edges. */
import { appOf } from '../../../testing/apps.ts';
import { tarball } from '../../../testing/archive.ts';
import { packApp } from '../../bench-app.ts';
import { Daemon } from '../../daemon.ts';
import type { Campaign, CampaignContext, CampaignReport } from '../campaign.ts';
import { ECHO, FLOOD, FLOOD_TABLES, LARGE, LARGE_BYTES } from './attacks.ts';
import { exhaustDescriptors } from './descriptors.ts';
import { GoodClients } from './good-clients.ts';
import { Scene, SIZES } from './scene.ts';

const EDGES = ['uws', 'node'] as const;

export const clients: Campaign = {
  name: 'clients',
  question: 'Do slow, silent, greedy and vanishing clients harm anyone but themselves, and what does each cost?',
  run: async (context) => {
    const report: CampaignReport = { figures: [], violations: [], skipped: [] };
    // A full run measures one edge at a time; a short one waits for the time limits of both at once.
    const parts =
      context.extent === 'smoke'
        ? await Promise.all(EDGES.map((edge) => runOn(edge, context)))
        : [await runOn('uws', context), await runOn('node', context)];
    for (const [i, { figures, violations, skipped }] of parts.entries()) {
      report.figures.push(...figures.map(({ name, value }) => ({ name: `${EDGES[i]}: ${name}`, value })));
      report.violations.push(...violations.map((what) => `${EDGES[i]}: ${what}`));
      report.skipped.push(...skipped);
    }
    return report;
  },
};

async function runOn(edge: 'uws' | 'node', { extent, newFolder, progress }: CampaignContext): Promise<CampaignReport> {
  const sizes = SIZES[extent];
  const report: CampaignReport = { figures: [], violations: [], skipped: [] };
  const daemon = await Daemon.start({ dataDir: newFolder(), config: { edge } });
  const { pid } = await daemon.status();
  await daemon.install('bench', await packApp());
  await daemon.install(FLOOD, floodArchive());
  await daemon.install(LARGE, tarball(appOf(LARGE, { queries: { get: `() => 'x'.repeat(${LARGE_BYTES})` } })));
  await daemon.install(ECHO, tarball(appOf(ECHO, { queries: { say: '({ input }) => input.text' } })));
  const good = new GoodClients(daemon);
  const scene = new Scene(daemon, pid, good, sizes, report);
  try {
    await scene.alone();
    // Opened one kind after the other to see what each costs, and then waited for together.
    const waits = [await scene.slow(), await scene.stalled()];
    progress(`${edge}: slow clients and readers that do not read`);
    const untilEnded = async () => {
      await Promise.all(waits.map((wait) => wait()));
      scene.latencies('beside slow clients and readers that do not read');
    };
    const others = async () => {
      progress(`${edge}: idle streams`);
      await scene.streams();
      progress(`${edge}: endless bodies`);
      await scene.bodies();
      progress(`${edge}: answers that are not read`);
      await scene.answers();
      progress(`${edge}: clients that leave`);
      await scene.leavers();
      await scene.pipelining(edge);
    };
    const fewDescriptors = () => exhaustDescriptors(edge, newFolder(), report);
    if (extent === 'smoke') {
      // Nothing but time limits to wait for: the others do their harm meanwhile.
      await Promise.all([untilEnded(), others(), fewDescriptors()]);
    } else {
      for (const part of [untilEnded, others, fewDescriptors]) await part();
    }
    if ((await daemon.status()).pid !== pid) report.violations.push('the daemon is another process than before');
  } finally {
    await good.stop();
    await daemon.stop();
  }
  report.violations.push(...new Set(good.violations));
  return report;
}

function floodArchive(): Buffer {
  const app = appOf(FLOOD, {
    actions: { go: { run: '() => null', writes: FLOOD_TABLES } },
  });
  return tarball(app);
}
