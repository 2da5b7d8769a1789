/** `npm run faults -- smuggling`: the vectors on every way, and random damage to them. */

import { Counts } from '../../../testing/clients.ts';
import type { Random } from '../../../testing/random.ts';
import { installed } from '../../../testing/smuggling/proxies.ts';
import { exchangeMutant, type Target } from '../../../testing/smuggling/run-vector.ts';
import { missingProxies, Scene } from '../../../testing/smuggling/scene.ts';
import { VECTORS, type Vector } from '../../../testing/smuggling/vectors.ts';
import type { Campaign, Report } from '../campaign.ts';

const EDGES = ['uws', 'node'] as const;
const MUTANTS = { full: 500, smoke: 25 };
/** Bytes that parsers are known to differ on. */
const HOSTILE = ['\r', '\n', '\r\n', '\t', ' ', '\0', '\x0b', '\x85', '\xff', ':', ',', ';', '0', '1', 'a', '"'];

export const smuggling: Campaign = {
  name: 'smuggling',
  question: 'Is one request ever read as two, directly or behind nginx and HAProxy?',
  run: async ({ random, extent, rounds, report, newFolder, progress }) => {
    report.skipped.push(...missingProxies().map((kind) => `${kind} is not installed`));
    const mutants = rounds ?? MUTANTS[extent];
    for (const kind of ['nginx', 'haproxy'] as const) report.figure(kind, installed(kind)?.version ?? 'not installed');
    for (const edge of EDGES) {
      const scene = await Scene.open(edge, newFolder());
      const { pid } = await scene.gateway.system();
      const sendMutants = async (target: Target): Promise<void> => {
        const chance = random.fork();
        for (let i = 0; i < mutants; i++) {
          const { name, bytes } = mutate(chance.pick(VECTORS), chance);
          const what = await exchangeMutant(target, scene.targets[0] as Target, bytes, `${target.way} mutant ${i}`);
          report.violated(`${edge}, ${target.way}, mutant ${i} of ${name}`, what);
        }
      };
      try {
        // The smoke run leaves the table to test/smuggling.e2e.test.ts, which runs it whole.
        if (extent === 'full') await runTable(scene, edge, report);
        await Promise.all(scene.targets.map(sendMutants));
        progress(`${edge}: ${mutants} mutants on each of ${scene.targets.length} ways`);
        if ((await scene.gateway.system()).pid !== pid) report.violated(edge, 'the daemon is another process');
      } finally {
        await scene.close();
      }
      report.figure(`${edge}: mutants on each way`, mutants);
    }
  },
};

/** The table: for each kind, what its senders saw how often on each way. */
async function runTable(scene: Scene, edge: string, report: Report): Promise<void> {
  const cells = new Map<string, string[]>();
  await Promise.all(
    scene.targets.map(async (target) => {
      const outcome = await scene.runAll(target);
      report.violated(edge, outcome.violations);
      const counts = new Map<string, Counts>();
      for (const [{ kind }, seen] of outcome.seen) {
        const count = counts.get(kind) ?? new Counts();
        counts.set(kind, count);
        count.count(seen);
      }
      for (const [kind, count] of counts)
        cells.set(kind, [...(cells.get(kind) ?? []), `${target.way}: ${new Counts([...count].sort()).list()}`]);
    }),
  );
  for (const [kind, ways] of cells) report.figure(`${edge}: ${kind}`, ways.sort().join('; '));
}

/** The vector with one to three places damaged, anywhere but in the request inside, of which it then holds a prefix. */
function mutate(vector: Vector, random: Random): { name: string; bytes: (inner: string, auth: string) => string } {
  const edits = Array.from({ length: random.between(1, 3) }, () => ({
    place: random.next(),
    drop: random.between(0, 1),
    insert: random.pick(HOSTILE),
  }));
  const bytes = (inner: string, auth: string) => {
    let text = vector.bytes(inner, auth);
    for (const { place, drop, insert } of edits) {
      // Damage to the token would only have the request refused for it.
      const from = text.indexOf(auth) + auth.length;
      const to = Math.max(from + 1, text.indexOf(inner));
      const at = from + Math.floor(place * (to - from));
      text = text.slice(0, at) + insert + text.slice(at + drop);
    }
    return text;
  };
  return { name: `${vector.kind}, ${vector.name}`, bytes };
}
