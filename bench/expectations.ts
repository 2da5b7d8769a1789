/** What the project expects of its own numbers, on a machine of two cores; a bench says how it stands and fails nobody. */
import RULES from './expectations.json' with { type: 'json' };
import type { Expectation, Measurement } from './measurements.ts';

/** Which number it is about: of the load at so many connections, or a fact; and what that should be. */
type Rule = {
  text: string;
  scenario: string;
  connections?: number;
  /** The ratio to this reference. */
  ratio?: string;
  rowsPerCommit?: true;
  /** Milliseconds of the gateway's p50 over that of this reference. */
  p50Over?: string;
  /** The gateway's worst, in milliseconds. */
  worst?: true;
  fact?: string;
  factEnds?: string;
  atLeast?: number;
  below?: number;
  atMost?: number;
};

/** One for each rule that the measurements say something about. */
export function checkExpectations(measurements: Measurement[]): Expectation[] {
  return (RULES as Rule[]).flatMap((rule) => {
    const value = numberOf(rule, measurements);
    if (value === undefined || value === null) return [];
    const { text, atLeast, below, atMost } = rule;
    const met =
      (atLeast === undefined || value >= atLeast) &&
      (below === undefined || value < below) &&
      (atMost === undefined || value <= atMost);
    const expected = atLeast !== undefined ? `≥ ${atLeast}` : below !== undefined ? `< ${below}` : `≤ ${atMost}`;
    return [{ text, expected, measured: value.toFixed(2), met }];
  });
}

/** Undefined or null when the run did not measure it. */
function numberOf(rule: Rule, measurements: Measurement[]): number | null | undefined {
  const found = measurements.find((one) => isAbout(rule, one));
  if (found === undefined) return undefined;
  if (found.kind === 'fact') return found.value;
  const { gateway, [rule.p50Over ?? '']: reference } = found.sides;
  if (rule.ratio !== undefined) return found.ratios[rule.ratio]?.estimate;
  if (rule.rowsPerCommit) return found.rowsPerCommit;
  if (rule.worst) return gateway?.worst;
  return gateway && reference ? gateway.p50 - reference.p50 : undefined;
}

function isAbout({ scenario, connections, fact, factEnds }: Rule, one: Measurement): boolean {
  if (one.scenario !== scenario) return false;
  if (one.kind === 'load') return one.connections === connections;
  return factEnds === undefined ? one.name === fact : one.name.endsWith(factEnds);
}
