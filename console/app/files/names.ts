/** Names for files, which have none of their own: a part of their SHA-256, with an ending for downloads. */
import { endingOf } from '../../../protocol/media-types.ts';
import type { BlobRow } from '../../../storage/blobs.ts';

/** Enough to tell the files of an app apart. */
export const shortName = (sha256: string): string => sha256.slice(0, 16);

export const nameOf = ({ sha256, type }: Pick<BlobRow, 'sha256' | 'type'>): string =>
  `${shortName(sha256)}${endingOf(type)}`;
