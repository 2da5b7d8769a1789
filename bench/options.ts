/** The command line of the bench. */
import { parseArgs } from 'node:util';

export type Options = {
  /** Names of the scenarios to run, in the order of the list. */
  scenarios: string[];
  /** Measured seconds for each scenario, number of connections and side. */
  seconds: number;
  /** Everything as short as it can be while every part still runs. */
  smoke: boolean;
  connections: number[];
  edge: 'auto' | 'uws' | 'node';
  durability: 'full' | 'normal';
  /** Write a CPU profile of the supervisor beside the report. */
  cpuProf: boolean;
  help: boolean;
};

export class OptionError extends Error {}

const SMOKE_SECONDS = 0.4;
const CONNECTIONS = [1, 8, 64];
const MAX_CONNECTIONS = 1000;

export const HELP = `npm run bench -- [scenario …] [options]

  --seconds N             measured seconds for each scenario, number of connections and side (default 5)
  --connections 1,8,64    numbers of connections to load with
  --smoke                 a few seconds per scenario, to see that all of it works
  --edge auto|uws|node    HTTP server of the gateway (default auto)
  --durability full|normal
  --cpu-prof              write a CPU profile of the supervisor beside the report
`;

/** Throws `OptionError` with a message for a person. `known` are the scenarios there are. */
export function parseOptions(args: string[], known: string[]): Options {
  const { values, positionals } = parse(args);
  for (const name of positionals) {
    if (!known.includes(name)) throw new OptionError(`There is no scenario "${name}"; there are: ${known.join(', ')}.`);
  }
  const { smoke = false } = values;
  const seconds = values.seconds === undefined ? (smoke ? SMOKE_SECONDS : 5) : Number(values.seconds);
  if (!(seconds > 0 && seconds <= 3600)) throw new OptionError('--seconds must be a number above 0 and up to 3600.');
  const connections = values.connections === undefined ? CONNECTIONS : values.connections.split(',').map(Number);
  if (!connections.every((count) => Number.isInteger(count) && count >= 1 && count <= MAX_CONNECTIONS)) {
    throw new OptionError(`--connections must be whole numbers from 1 to ${MAX_CONNECTIONS}, such as 1,8,64.`);
  }
  return {
    scenarios: positionals.length === 0 ? known : known.filter((name) => positionals.includes(name)),
    seconds,
    smoke,
    connections,
    edge: oneOf('--edge', values.edge ?? 'auto', ['auto', 'uws', 'node']),
    durability: oneOf('--durability', values.durability ?? 'full', ['full', 'normal']),
    cpuProf: values['cpu-prof'] ?? false,
    help: values.help ?? false,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        seconds: { type: 'string' },
        connections: { type: 'string' },
        smoke: { type: 'boolean' },
        edge: { type: 'string' },
        durability: { type: 'string' },
        'cpu-prof': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new OptionError((error as Error).message);
  }
}

function oneOf<T extends string>(option: string, value: string, allowed: T[]): T {
  const found = allowed.find((word) => word === value);
  if (found === undefined) throw new OptionError(`${option} must be one of ${allowed.join(', ')}.`);
  return found;
}
