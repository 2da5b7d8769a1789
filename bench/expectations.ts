/** What the project expects of its own numbers, on a machine of two cores; a bench says how it stands and fails nobody. */
import type { Comparison, Expectation, Fact, Measurement } from './measurements.ts';

type Rule = {
  text: string;
  /** The number in question; undefined when the run did not measure it. */
  value(measurements: Measurement[]): number | null | undefined;
  atLeast?: number;
  below?: number;
};

const RULES: Rule[] = [
  {
    text: 'svc_read of one row, 64 connections: of the bare edge',
    value: (all) => comparison(all, 'read', 64)?.ratio,
    atLeast: 0.4,
  },
  {
    text: 'svc_write of one row, 64 connections: of the bare edge',
    value: (all) => comparison(all, 'write', 64)?.ratio,
    atLeast: 0.2,
  },
  {
    text: 'svc_write of one row, 64 connections: rows a commit',
    value: (all) => comparison(all, 'write', 64)?.rowsPerCommit,
    atLeast: 8,
  },
  {
    text: "a cold actor's first answer, of `node -e 0`",
    value: (all) => fact(all, 'cold', (name) => name.endsWith('of node -e 0')),
    below: 1.5,
  },
  {
    text: 'daemon ready, of `node -e 0`',
    value: (all) => fact(all, 'ready', (name) => name.endsWith('of node -e 0')),
    below: 6,
  },
  {
    text: 'tree with one app live, MiB',
    value: (all) => fact(all, 'memory', (name) => name === 'tree with one app live'),
    below: 200,
  },
  {
    text: 'each further live actor, MiB',
    value: (all) => fact(all, 'memory', (name) => name === 'each further live actor'),
    below: 12,
  },
  {
    text: '1,000 registered idle apps, MiB more',
    value: (all) => fact(all, 'memory', (name) => name === '1000 registered idle apps'),
    below: 30,
  },
];

/** One for each rule that the measurements say something about. */
export function checkExpectations(measurements: Measurement[]): Expectation[] {
  return RULES.flatMap(({ text, value: measure, atLeast, below }) => {
    const value = measure(measurements);
    if (value === undefined || value === null) return [];
    const met = (atLeast === undefined || value >= atLeast) && (below === undefined || value < below);
    const expected = atLeast === undefined ? `< ${below}` : `≥ ${atLeast}`;
    return [{ text, expected, measured: value.toFixed(2), met }];
  });
}

function comparison(all: Measurement[], scenario: string, connections: number): Comparison | undefined {
  return all.find(
    (one): one is Comparison =>
      one.kind === 'comparison' && one.scenario === scenario && one.connections === connections,
  );
}

function fact(all: Measurement[], scenario: string, named: (name: string) => boolean): number | undefined {
  return all.find((one): one is Fact => one.kind === 'fact' && one.scenario === scenario && named(one.name))?.value;
}
