/** Maps databases to buckets, the unit in which nodes that share a log of pages own them (specification, "Log of pages"). */
import { createHash } from 'node:crypto';
import { appOfKey } from './ids.ts';

export const BUCKETS = 4096;

const RUNTIME = '_runtime/';
const TRASHED = '_trash/';

/** What a node makes anew from what it has, or works on before it is an app's: these are in no bucket. */
const OF_NODE: ReadonlySet<string> = new Set(['_analytics', '_staged']);

/** Whether the database is of one node alone, and not in the log of pages. */
export function isOfNode(database: string): boolean {
  return OF_NODE.has(database);
}

/** 0 to `BUCKETS` - 1. A draft's database is in the bucket of its app, and so is one in the trash. */
export function bucketOf(database: string): number {
  if (database.startsWith(RUNTIME)) return Number(database.slice(RUNTIME.length));
  if (database.startsWith(TRASHED)) return bucketOf(database.slice(TRASHED.length, database.lastIndexOf('-')));
  return createHash('sha256').update(appOfKey(database)).digest().readUInt16BE(0) >> 4;
}

/** The bucket of what belongs to no app and no workspace. */
export const GATEWAY_BUCKET = bucketOf('_identity');

/** The bucket of a part of a workspace, which is that of its app. */
export function bucketOfPart(part: string): number {
  return bucketOf(part.slice(part.indexOf('~') + 1));
}

/** The name of the database with the gateway's own rows of the apps of a bucket. It is in that bucket. */
export function runtimeOfBucket(bucket: number): string {
  return `${RUNTIME}${bucket}`;
}

/** The name of the database of a removed app: `entry` is its folder in the trash, `<app>-<removedAt>`. */
export function trashedDatabase(entry: string): string {
  return `${TRASHED}${entry}`;
}
