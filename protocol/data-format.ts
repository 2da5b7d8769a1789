/** The number of the format that data directories have. Pure. */
import { SvcError } from './errors.ts';

/** That of this release. It grows when an older release could no longer work with what this one leaves. */
export const DATA_FORMAT = 1;

/** `svcVersion` is the release that ran on the data last. */
export type DataFormat = { format: number; svcVersion: string };

/** Of a data directory, or of a backup of one. */
export function tooNew({ format, svcVersion }: DataFormat): SvcError {
  return new SvcError(
    'DATA_FORMAT',
    `The data has format ${format}, written by svc ${svcVersion}; this release reads formats up to ${DATA_FORMAT}. Nothing was changed. Run svc ${svcVersion} or newer on it, or restore a backup from before the upgrade into another directory.`,
  );
}
