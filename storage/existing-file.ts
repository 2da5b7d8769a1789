/** Tells the file of a database that held data from one that does not (specification, "Damaged data"). */
import { type Stats, statSync } from 'node:fs';
import { DATA_LOST } from '../protocol/errors.ts';

export const MISSING = 'is missing';
export const EMPTY = 'is empty';

/** A file that held data does not. The message goes on where the name of the file ends. */
export class DataLost extends Error {
  readonly code = DATA_LOST;
}

/** Throws `DataLost` for what SQLite would take for a new database: it would also delete the log beside it. */
export function statExisting(file: string): Stats {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) throw new DataLost(MISSING);
  if (found.size === 0) throw new DataLost(EMPTY);
  return found;
}
