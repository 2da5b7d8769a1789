/** The ways in which a disk is struck, and what the callers of writes may hear meanwhile. */
import type { Fault } from '../../testing/shim/disk.ts';

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

const FULL = ['201', '507 STORAGE_FULL'];
const FAILING = ['201', '500 INTERNAL'];
/** A process that was killed took calls with it. */
const KILLED = ['500 HANDLER_ERROR', '503'];

export const STRIKES: Strike[] = [
  { name: 'everything is full', faults: ['full'], only: '', allowed: FULL },
  { name: 'fsync fails on the logs of databases', faults: ['syncEio'], only: '-wal', allowed: FAILING },
  { name: 'writes are short', faults: ['short'], only: '', allowed: ['201'] },
  { name: 'writing fails', faults: ['writeEio'], only: '', allowed: FAILING },
  { name: 'everything is full', faults: ['full'], only: '', allowed: [...FULL, ...KILLED], kills: 'writer' },
  { name: 'fsync fails everywhere', faults: ['syncEio'], only: '', allowed: FAILING },
  { name: 'databases are full', faults: ['full'], only: '.sqlite', allowed: FULL },
  { name: 'writing fails', faults: ['writeEio'], only: '.sqlite', allowed: [...FAILING, ...KILLED], kills: 'writer' },
  { name: 'everything is full', faults: ['full'], only: '', allowed: [...FULL, ...KILLED], kills: 'host' },
  { name: 'fsync fails on databases', faults: ['syncEio'], only: 'data.sqlite', allowed: FAILING },
  { name: 'temporary files find no room', faults: ['full'], only: '.tmp', allowed: ['201'] },
  { name: 'everything is full and writes are short', faults: ['full', 'short'], only: '', allowed: FULL },
  {
    name: 'reading and writing databases fails',
    faults: ['readEio', 'writeEio'],
    only: 'data.sqlite',
    allowed: FAILING,
    readsFail: true,
  },
];

export function describeStrike({ name, kills }: Strike): string {
  return kills === undefined ? name : `${name}, and the ${kills} is killed`;
}
