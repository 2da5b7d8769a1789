/** What a fuzz target is: some checks that must hold for whatever is thrown at one part of the gateway. */
import assert from 'node:assert/strict';
import fc, { type IRawProperty } from 'fast-check';
import { assertPrototypesUntouched } from './oracle.ts';

/** Far more than an input takes, so that one that takes longer hangs. */
const LIMIT_MS = 60_000;

export type Check = {
  name: string;
  /** Inputs tried when the command line does not say how many. */
  runs: number;
  property: IRawProperty<unknown>;
};

/** An input is as it should be if `holds` ends in time, throws nothing and leaves the prototypes of this process alone. */
export function check<T>(
  name: string,
  runs: number,
  input: fc.Arbitrary<T>,
  holds: (input: T) => void | Promise<void>,
  limitMs: number = LIMIT_MS,
): Check {
  const property = fc.asyncProperty(input, async (one) => {
    const startedAt = performance.now();
    await holds(one);
    const ms = performance.now() - startedAt;
    assert.ok(ms < limitMs, `it took ${ms.toFixed(0)} ms`);
    assertPrototypesUntouched();
  });
  return { name, runs, property: property as IRawProperty<unknown> };
}

/** `newFolder` makes an empty folder, removed at the end of the run; `atEnd` is told how to end what the target has started. */
export type Stage = { newFolder(): string; atEnd(end: () => unknown): void };

export type Target = {
  name: string;
  /** What must hold, in one sentence. */
  claim: string;
  open(stage: Stage): Check[] | Promise<Check[]>;
};
