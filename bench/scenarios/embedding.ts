/** What the start of a host grows by that builds a gateway and does not start it yet, next to an empty Node. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Context, type Scenario, sized } from '../context.ts';
import { type Finding, fact } from '../measurements.ts';
import { ROOT } from '../servers.ts';
import { median } from '../statistics.ts';

const RUNS = { full: 15, smoke: 3 };
const MiB = 1024 * 1024;

type Cost = { cpuMs: number; rssMiB: number };

export const embeddingScenario: Scenario = {
  name: 'embedding',
  question: 'What does the start of a host grow by that builds a gateway, before the gateway starts?',
  run: async (context) => compare(context),
};

/** Medians of runs in turns, and of the differences of neighbours. */
function compare(context: Context): Finding[] {
  const runs = sized(context, RUNS);
  const entry = JSON.stringify(pathToFileURL(join(ROOT, 'dist/index.js')).href);
  const dataDir = JSON.stringify(join(context.newFolder(), 'data'));
  const building = `const { buildGateway } = await import(${entry}); buildGateway({ dataDir: ${dataDir} });`;
  const pairs = Array.from({ length: runs }, () => ({ empty: costOf(''), built: costOf(building) }));
  const detail = `median of ${runs} runs`;
  const grown = (of: (cost: Cost) => number) => median(pairs.map(({ empty, built }) => of(built) - of(empty)));
  return [
    fact('empty Node, processor time', median(pairs.map(({ empty }) => empty.cpuMs)), 'ms', detail),
    fact('with buildGateway, processor time', median(pairs.map(({ built }) => built.cpuMs)), 'ms', detail),
    fact(
      'a host grows by, processor time',
      grown(({ cpuMs }) => cpuMs),
      'ms',
      detail,
    ),
    fact('empty Node, memory', median(pairs.map(({ empty }) => empty.rssMiB)), 'MiB', detail),
    fact('with buildGateway, memory', median(pairs.map(({ built }) => built.rssMiB)), 'MiB', detail),
    fact(
      'a host grows by, memory',
      grown(({ rssMiB }) => rssMiB),
      'MiB',
      detail,
    ),
  ];
}

/** Of a Node that runs this code and ends. */
function costOf(code: string): Cost {
  const tell = 'console.log(JSON.stringify([process.cpuUsage(), process.memoryUsage.rss()]));';
  const text = execFileSync(process.execPath, ['--input-type=module', '-e', `${code} ${tell}`], { encoding: 'utf8' });
  const [{ user, system }, rss] = JSON.parse(text) as [NodeJS.CpuUsage, number];
  return { cpuMs: (user + system) / 1000, rssMiB: rss / MiB };
}
