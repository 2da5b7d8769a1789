/** Names for files, which have none of their own: what a row calls them, or a part of their SHA-256. */
import { addressOf } from '../../../protocol/http/client.ts';
import { endingOf } from '../../../protocol/http/media-types.ts';
import type { Received } from '../../../protocol/routes/api.ts';
import type { Use } from './uses.ts';

/** A file as it is listed. */
export type KeptFile = Received<'GET /svc/:id/_blobs'>['files'][number];

export const addressOfFile = (app: string, sha256: string): string =>
  addressOf('GET /svc/:id/_blobs/:sha256', { params: { id: app, sha256 } });

/** Enough to tell the files of an app apart. */
export const shortName = (sha256: string): string => sha256.slice(0, 16);

/** What a row calls the file, or undefined. */
export const calledOf = (uses: readonly Use[] = []): string | undefined =>
  uses.find(({ name }) => name !== null)?.name ?? undefined;

/** For a download, with an ending. */
export function nameOf({ sha256, type }: Pick<KeptFile, 'sha256' | 'type'>, uses?: readonly Use[]): string {
  const called = calledOf(uses)?.slice(0, 100);
  if (called !== undefined && /\.[A-Za-z0-9]{1,8}$/.test(called)) return called;
  return `${called ?? shortName(sha256)}${endingOf(type)}`;
}
