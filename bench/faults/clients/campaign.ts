/** `npm run faults -- clients`: slow, silent, greedy and vanishing clients beside good ones, on both edges. */
import { appOf } from '../../../testing/apps.ts';
import type { EdgeKind } from '../../../testing/gateway.ts';
import { ledgerApp, verify } from '../../../testing/write-ledger.ts';
import type { Campaign, CampaignContext } from '../campaign.ts';
import { Neighbours } from '../neighbours.ts';
import { ECHO, FLOOD, FLOOD_TABLES, GOOD, LARGE, LARGE_BYTES } from './attacks.ts';
import { exhaustDescriptors } from './descriptors.ts';
import { SIZES, sceneOn } from './scene.ts';

/** A good client whose call has no answer for this long waits for others. */
const SLOW_MS = 30_000;

export const clients: Campaign = {
  name: 'clients',
  question: 'Do slow, silent, greedy and vanishing clients harm anyone but themselves, and what does each cost?',
  run: async (context) => {
    // A full run measures one edge at a time; a short one waits for the time limits of both at once.
    const first = runOn('uws', context);
    if (context.extent === 'full') await first;
    await Promise.all([first, runOn('node', context)]);
  },
};

async function runOn(edge: EdgeKind, context: CampaignContext): Promise<void> {
  const { extent, report } = context;
  const gateway = context.newGateway({ edge });
  await gateway.start();
  const { pid } = await gateway.system();
  await gateway.install(GOOD, ledgerApp(GOOD));
  await gateway.install(FLOOD, appOf(FLOOD, { actions: { go: { run: '() => null', writes: FLOOD_TABLES } } }));
  await gateway.install(LARGE, appOf(LARGE, { queries: { get: `() => 'x'.repeat(${LARGE_BYTES})` } }));
  await gateway.install(ECHO, appOf(ECHO, { queries: { say: '({ input }) => input.text' } }));
  const good = new Neighbours(gateway, [GOOD], 'good');
  const scene = sceneOn(gateway, edge, good, SIZES[extent], report);

  /** Everything that bad clients do. */
  async function attack(): Promise<void> {
    const say = (what: string) => context.progress(`${edge}: ${what}`);
    // The good clients without the others, for comparison.
    await scene.latenciesFrom('alone');
    // Opened one kind after the other to see what each costs, and then waited for together.
    const waits = [await scene.slow(), await scene.stalled()];
    say('slow clients and readers that do not read');
    const untilEnded = async () => {
      await Promise.all(waits.map((wait) => wait()));
      scene.latencies('beside slow clients and readers that do not read');
    };
    const others = async () => {
      say('idle streams');
      await scene.streams();
      say('endless bodies');
      await scene.bodies();
      say('answers that are not read');
      await scene.answers();
      say('clients that leave');
      await scene.leavers();
      await scene.pipelining();
    };
    const fewDescriptors = () => exhaustDescriptors(edge, context);
    // In a short run there is nothing but time limits to wait for: the others do their harm meanwhile.
    if (extent === 'smoke') await Promise.all([untilEnded(), others(), fewDescriptors()]);
    else for (const part of [untilEnded, others, fewDescriptors]) await part();
  }

  // A part that fails leaves no clients behind.
  await attack().finally(() => good.stop());
  if ((await gateway.system()).pid !== pid) report.violated(edge, 'the daemon is another process than before');
  await gateway.stop();
  if (good.slowestMs > SLOW_MS) report.violated(edge, `a good client waited ${Math.round(good.slowestMs)} ms`);
  report.violated(edge, [
    ...new Set(good.violations),
    ...[...good.failures].map(([outcome, count]) => `good clients heard ${outcome} × ${count}.`),
    ...verify(gateway.dataDir, good.load).violations,
  ]);
}
