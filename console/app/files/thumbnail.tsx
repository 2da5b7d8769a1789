/** A file in a list: a small picture of an image, the kind of any other. */
import { endingOf, essenceOf } from '../../../protocol/http/media-types.ts';
import { signedAddress } from '../../bridge/page-key.ts';
import { addressOfFile, type KeptFile } from './file-names.ts';

/** Larger ones are read only when they are looked at. */
const MOST_BYTES = 8 * 1024 * 1024;

export function Thumbnail({ app, row: { sha256, type, size } }: { app: string; row: KeptFile }) {
  if (!essenceOf(type).startsWith('image/') || size > MOST_BYTES || size === 0) {
    return (
      <span class="thumbnail" aria-hidden="true">
        {endingOf(type).slice(1, 6)}
      </span>
    );
  }
  return (
    <img
      class="thumbnail"
      src={signedAddress(addressOfFile(app, sha256))}
      alt=""
      loading="lazy"
      decoding="async"
      width="40"
      height="40"
    />
  );
}
