/** What a fuzz target is: some properties that must hold for whatever is thrown at one part of the gateway. */
import type { IRawProperty } from 'fast-check';

export type TargetContext = {
  /** A new empty folder, removed at the end of the run. */
  newFolder(): string;
};

export type Check = {
  name: string;
  /** Inputs tried when the command line does not say how many. */
  runs: { full: number; smoke: number };
  property: IRawProperty<unknown>;
};

/** A target that is ready; `close` ends the processes that it started. */
export type OpenTarget = { checks: Check[]; close(): Promise<void> };

export type Target = {
  name: string;
  /** What must hold, in one sentence. */
  claim: string;
  open(context: TargetContext): Promise<OpenTarget>;
};
