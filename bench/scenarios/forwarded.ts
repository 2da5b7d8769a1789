/** What a read costs that another node sends on to the owner of its app, beside one that its owner is asked itself. */
import { join } from 'node:path';
import { readToken } from '../../storage/token.ts';
import { APP } from '../bench-app.ts';
import { whileRunning } from '../compare.ts';
import { onServer } from '../contenders.ts';
import { type Scenario, sized } from '../context.ts';
import { fact, type RoundResult, type SideResult } from '../measurements.ts';
import { ROOT, startClusterNode } from '../servers.ts';
import { median } from '../statistics.ts';
import { takeTurns } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { crowd } from './crowd.ts';
import { read } from './workloads.ts';

const OWNER = 'at its owner';
const FORWARDED = 'forwarded';
const IN_FLIGHT = { full: [1, 64], smoke: [1] };
const ROUNDS = { full: 40, smoke: 2 };
const WARM_UP_MS = { full: 2000, smoke: 50 };

export const forwardedScenario: Scenario = {
  name: 'forwarded',
  question:
    'How much longer does a read take at a node that sends it on to the owner of its app, and how many a second?',
  run: async (context) => {
    const dataDir = await crowd(context, [APP]);
    const token = await readToken(join(dataDir, 'token.bin'));
    const requests = Array.from({ length: 100 }, (_, i) => httpBytes(read(1 + i * 10).request, token));
    return whileRunning(async (keep) => {
      const node = {
        built: join(ROOT, 'dist/index.js'),
        options: { ...context.config, dataDir },
        edge: context.options.edge,
      };
      const owner = keep(await startClusterNode(OWNER, { ...node, owner: null }));
      const other = keep(await startClusterNode(FORWARDED, { ...node, owner: `http://127.0.0.1:${owner.port}` }));
      const sides = [
        onServer(OWNER, owner, context, { requests }),
        onServer(FORWARDED, { ...other, processes: [...other.processes, ...owner.processes] }, context, { requests }),
      ];
      const rounds = sized(context, ROUNDS);
      const measured = [];
      for (const connections of sized(context, IN_FLIGHT)) {
        for (const side of sides) await side.run({ connections, warmUpMs: sized(context, WARM_UP_MS), measureMs: 1 });
        const turns = {
          scenario: 'forwarded',
          question:
            'How many reads of one row a second, at the owner of the app and at another node, at {n} in flight?',
          durability: null,
          connections,
          rounds,
          measureMs: (context.options.seconds * 1000) / rounds,
        };
        measured.push(await takeTurns(context, sides, turns));
      }
      const [alone] = measured;
      const later = laterBy(alone?.sides[FORWARDED], alone?.sides[OWNER]);
      const detail = `median of the differences of both medians in ${rounds} rounds in turns, one read at a time`;
      return [...measured, fact('a forwarded read, later', later, 'ms', detail)];
    });
  },
};

/** How many milliseconds the medians of one are over those of the other. */
function laterBy(one: SideResult | undefined, other: SideResult | undefined): number {
  const rounds = (side: SideResult | undefined): RoundResult[] => side?.rounds ?? [];
  return median(rounds(one).map(({ p50 }, i) => p50 - (rounds(other)[i]?.p50 ?? Number.NaN)));
}
