/** Maps databases to buckets, the unit in which nodes that share a log of pages own them (specification, "Log of pages"). */
import { createHash } from 'node:crypto';
import { appOfKey } from './ids.ts';

export const BUCKETS = 4096;

/** 0 to `BUCKETS` - 1. A draft's database is in the bucket of its app. */
export function bucketOf(database: string): number {
  return createHash('sha256').update(appOfKey(database)).digest().readUInt16BE(0) >> 4;
}
