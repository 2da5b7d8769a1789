/** The command line of the bench. */
import { chosen, parseWords, UsageError, wholeNumber } from './command.ts';

export type Options = {
  /** Measured seconds for each load scenario, number of requests in flight and contender. */
  seconds: number;
  /** Everything as short as it can be while every part still runs. */
  smoke: boolean;
  /** Requests in flight, for load scenarios that have no numbers of their own. */
  connections: number[];
  /** Apps of `density`; null for as many as it has by itself. */
  apps: number | null;
  /** How long the mixed load lasts, and that of `density` on each server, and their requests a second. */
  minutes: number;
  rate: number;
  edge: 'auto' | 'uws' | 'node';
  /** Write a CPU profile of the supervisor beside the report. */
  cpuProf: boolean;
};

const SECONDS = { full: 3, smoke: 0.2 };
/** How many seeds in a row draw all scenarios. */
const SEEDS = 4;
const CONNECTIONS = { full: [1, 64], smoke: [4] };
const MINUTES = 1;
/** What leaves a machine of two cores room to breathe. */
const RATE = 400;
const MAX_CONNECTIONS = 1000;
const MAX_APPS = 20_000;
const EDGES = ['auto', 'uws', 'node'];

export const HELP = `npm run bench -- [scenario …] [options]
npm run bench -- ab dirA dirB [scenario …]      two built checkouts in turns in one run

  --seconds N             measured seconds for each scenario, number in flight and contender (default 3)
  --connections 1,8,64    requests in flight (default 1,64; some scenarios have their own)
  --apps N                apps of density (default 5000)
  --minutes N             how long mixed and density load a server (default 1)
  --rate N                their requests a second (default 400)
  --smoke                 a few seconds per scenario, to see that all of it works
  --seed N                every fourth scenario, drawn by N: all of them from N to N + 3
  --edge auto|uws|node    HTTP server of the gateway (default auto)
  --cpu-prof              write a CPU profile of the supervisor beside the report
`;

/** The options, and the scenarios to run of those that are known, in their order. Throws `UsageError` with a message for a person. */
export function parseOptions<T extends { name: string }>(args: string[], known: T[]): Options & { scenarios: T[] } {
  const { values, flags, positionals } = parseWords(args, {
    seconds: 'string',
    connections: 'string',
    apps: 'string',
    minutes: 'string',
    rate: 'string',
    smoke: 'boolean',
    seed: 'string',
    edge: 'string',
    'cpu-prof': 'boolean',
  });
  const { smoke = false } = flags;
  const extent = smoke ? 'smoke' : 'full';
  const connections = values.connections?.split(',').map(Number) ?? CONNECTIONS[extent];
  if (!connections.every((count) => Number.isInteger(count) && count >= 1 && count <= MAX_CONNECTIONS)) {
    throw new UsageError(`--connections must be whole numbers from 1 to ${MAX_CONNECTIONS}, such as 1,8,64.`);
  }
  const { edge = 'auto' } = values;
  if (!EDGES.includes(edge)) throw new UsageError(`--edge must be one of ${EDGES.join(', ')}.`);
  const seed = wholeNumber('--seed', values.seed, 0);
  const scenarios = chosen('scenario', known, positionals);
  return {
    scenarios: seed === null ? scenarios : scenarios.filter((_, i) => i % SEEDS === seed % SEEDS),
    seconds: numberFrom('--seconds', values.seconds, SECONDS[extent], 0.001, 3600),
    smoke,
    connections,
    apps: wholeNumber('--apps', values.apps, 1, MAX_APPS),
    minutes: numberFrom('--minutes', values.minutes, MINUTES, 0.001, 1440),
    rate: numberFrom('--rate', values.rate, RATE, 1, 100_000),
    edge: edge as Options['edge'],
    cpuProf: flags['cpu-prof'] ?? false,
  };
}

function numberFrom(option: string, text: string | undefined, usual: number, least: number, most: number): number {
  const value = Number(text ?? usual);
  if (!(value >= least && value <= most)) throw new UsageError(`${option} must be a number from ${least} to ${most}.`);
  return value;
}
