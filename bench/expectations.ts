/** What the project expects of its own numbers, on a machine of two cores; a bench says how it stands and fails nobody. */
import type { Expectation, Fact, LoadMeasurement, Measurement, SideResult } from './measurements.ts';

type Rule = {
  text: string;
  /** The number in question; undefined when the run did not measure it. */
  value(measurements: Measurement[]): number | null | undefined;
  atLeast?: number;
  below?: number;
  atMost?: number;
};

const RULES: Rule[] = [
  {
    text: 'one row read, 64 in flight: of the bare edge',
    value: (all) => ratio(all, 'read', 64, 'bare edge'),
    atLeast: 0.5,
  },
  {
    text: 'one row read, 64 in flight: of the plain server',
    value: (all) => ratio(all, 'read', 64, 'plain server'),
    atLeast: 1.5,
  },
  {
    text: 'one durable write, 64 in flight: of the bare edge',
    value: (all) => ratio(all, 'write', 64, 'bare edge'),
    atLeast: 0.3,
  },
  {
    text: 'one durable write, 64 in flight: of the plain server',
    value: (all) => ratio(all, 'write', 64, 'plain server'),
    atLeast: 3,
  },
  {
    text: 'one durable write, 64 in flight: rows a commit',
    value: (all) => load(all, 'write', 64)?.rowsPerCommit,
    atLeast: 8,
  },
  {
    text: 'one row read, 1 in flight: p50 over that of the bare edge, ms',
    value: (all) => {
      const sides = load(all, 'read', 1)?.sides;
      const [own, bare] = [sides?.gateway, sides?.['bare edge']];
      return own && bare ? own.p50 - bare.p50 : undefined;
    },
    atMost: 0.1,
  },
  {
    text: '5,000 subscribers: from sending a write to the last event, worst, ms',
    value: (all) => side(all, 'sse-5000', 1, 'gateway')?.worst,
    atMost: 250,
  },
  {
    text: 'a publication with 200 apps and 10,000 commits, p50, ms',
    value: (all) => fact(all, 'publish', (name) => name === 'publication, large store, p50'),
    atMost: 300,
  },
  {
    text: 'the same, of that with 10 apps and 100 commits',
    value: (all) => fact(all, 'publish', (name) => name === 'publication, large of small store, p50'),
    atMost: 1.5,
  },
  {
    text: 'from the PUT of a file to the reload of its draft, p50, ms',
    value: (all) => fact(all, 'publish', (name) => name === 'PUT to reload, p50'),
    atMost: 150,
  },
  {
    text: 'from a write into the worktree to the reload of its draft, p50, ms',
    value: (all) => fact(all, 'publish', (name) => name === 'a write into the worktree to reload, p50'),
    atMost: 150,
  },
  {
    text: "other apps' p99 while one is published again and again, of that without",
    value: (all) => fact(all, 'publish', (name) => name === 'p99 while publishing, of p99 alone'),
    atMost: 1.2,
  },
  {
    text: 'the same, of that beside a foreign loop that computes as much at the lowest priority',
    value: (all) => fact(all, 'publish', (name) => name === 'p99 while publishing, of p99 beside a loop'),
    atMost: 1.2,
  },
  {
    text: "nine good apps' p99 with a looping one beside, of that without",
    value: (all) => fact(all, 'runaway', (name) => name === 'p99 beside, of p99 alone'),
    atMost: 1.5,
  },
  {
    text: 'webhooks that became runs that ended, 32 in flight: of svc_write',
    value: (all) => ratio(all, 'webhooks', 32, 'svc_write'),
    atLeast: 0.25,
  },
  {
    text: '1,000 fires in one minute: from the scheduled time to the start of the run, p99, ms',
    value: (all) => fact(all, 'schedule', (name) => name === 'from the scheduled time to the start of the run, p99'),
    below: 250,
  },
  {
    text: '1,000 fires in one minute: those that came, of those due',
    value: (all) => fact(all, 'schedule', (name) => name === 'fires that came, of those due'),
    atLeast: 1,
  },
  {
    text: "a cold actor's first answer, of `node -e 0`",
    value: (all) => fact(all, 'cold', (name) => name.endsWith('of node -e 0')),
    atMost: 1.5,
  },
  {
    text: "a cold actor's first answer among 1,000 apps, of `node -e 0`",
    value: (all) => fact(all, 'cold-1000', (name) => name.endsWith('of node -e 0')),
    atMost: 1.5,
  },
  {
    text: "a cold automation's first run, of `node -e 0`",
    value: (all) => fact(all, 'cold-fire', (name) => name.endsWith('of node -e 0')),
    atMost: 2,
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
  {
    text: '10,000 registered automations, MiB more in the supervisor',
    value: (all) => fact(all, 'memory', (name) => name === '10000 registered automations'),
    below: 30,
  },
  {
    text: "mixed load: growth of the supervisor's heap in its second half, %",
    value: (all) => fact(all, 'mixed', (name) => name === "growth of the supervisor's heap"),
    atMost: 5,
  },
  {
    text: "the worst request of any route: delay of the supervisor's event loop, ms",
    value: (all) => fact(all, 'loop', () => true),
    atMost: 50,
  },
];

/** One for each rule that the measurements say something about. */
export function checkExpectations(measurements: Measurement[]): Expectation[] {
  return RULES.flatMap(({ text, value: measure, atLeast, below, atMost }) => {
    const value = measure(measurements);
    if (value === undefined || value === null) return [];
    const met =
      (atLeast === undefined || value >= atLeast) &&
      (below === undefined || value < below) &&
      (atMost === undefined || value <= atMost);
    const expected = atLeast !== undefined ? `≥ ${atLeast}` : below !== undefined ? `< ${below}` : `≤ ${atMost}`;
    return [{ text, expected, measured: value.toFixed(2), met }];
  });
}

function load(all: Measurement[], scenario: string, connections: number): LoadMeasurement | undefined {
  return all.find(
    (one): one is LoadMeasurement =>
      one.kind === 'load' && one.scenario === scenario && one.connections === connections,
  );
}

function side(all: Measurement[], scenario: string, connections: number, name: string): SideResult | undefined {
  return load(all, scenario, connections)?.sides[name];
}

function ratio(all: Measurement[], scenario: string, connections: number, to: string): number | undefined {
  return load(all, scenario, connections)?.ratios[to]?.estimate;
}

function fact(all: Measurement[], scenario: string, named: (name: string) => boolean): number | undefined {
  return all.find((one): one is Fact => one.kind === 'fact' && one.scenario === scenario && named(one.name))?.value;
}
