/** Defines the format number of data directories. Pure. */
import { SvcError } from './errors.ts';

/** The format of this release. It grows when an older release could not work with data of this one. */
export const DATA_FORMAT = 1;

/** `svcVersion` is the release that last ran on the data. */
export type DataFormat = { format: number; svcVersion: string };

/** What the number belongs to. */
export function tooNew({ format, svcVersion }: DataFormat): SvcError {
  return new SvcError(
    'DATA_FORMAT',
    `The data has format ${format}, written by svc ${svcVersion}; this release reads formats up to ${DATA_FORMAT}. Nothing was changed. Run svc ${svcVersion} or newer on it, or restore a backup from before the upgrade into another directory.`,
  );
}
