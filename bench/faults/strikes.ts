/** The ways in which a disk is struck, and what the callers of writes may hear meanwhile. */
import type { Fault } from '../../testing/shim/disk.ts';
import TABLE from './strikes.json' with { type: 'json' };

export type Strike = {
  name: string;
  faults: Fault[];
  /** The paths that it strikes hold this; all when empty. */
  only: string;
  /** Beginnings of the outcomes that a write may have, a status and a code, besides 401 while the token is replaced. */
  allowed: string[];
  kills?: 'writer' | 'host';
  /** Reading fails too. */
  readsFail?: true;
};

export const STRIKES = TABLE.disk as unknown as Strike[];
/** Those of the git store: publications say by themselves what they may be answered. */
export const STORE_STRIKES = TABLE.gitStore as Pick<Strike, 'name' | 'faults' | 'only'>[];

export function describeStrike({ name, kills }: Strike): string {
  return kills === undefined ? name : `${name}, and the ${kills} is killed`;
}
