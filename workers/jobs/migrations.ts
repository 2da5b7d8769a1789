/** Checks the `migrations/` of a version before it is stored (decisions, section 2). */
import { SvcError } from '../../protocol/errors.ts';
import { refuseMigration } from '../../protocol/sql.ts';

const FOLDER = 'migrations/';
const NAME = /^(\d{4})_[a-z0-9][a-z0-9_-]*\.sql$/;

/**
 * How many migrations there are among the files of a version: numbered from 1 without a gap. Throws `INVALID_MIGRATION` with
 * the file in `path`. Files of other kinds, such as a README, are no migrations.
 */
export function checkMigrations(paths: string[], read: (path: string) => Buffer): number {
  const files = migrationsIn(paths);
  for (const [i, path] of files.entries()) {
    const number = NAME.exec(path.slice(FOLDER.length))?.[1];
    if (number === undefined) {
      throw invalid(path, 'must be named NNNN_<slug>.sql, the slug of a-z, 0-9, "-" and "_", directly in migrations/');
    }
    if (Number(number) !== i + 1) {
      const expected = String(i + 1).padStart(4, '0');
      throw invalid(
        path,
        Number(number) <= i ? `has a number that is there twice` : `leaves a gap: ${expected} comes next`,
      );
    }
    const refusal = refuseMigration(read(path).toString());
    if (refusal !== null) throw invalid(path, `has on line ${refusal.line}: ${refusal.message}`);
  }
  return files.length;
}

/**
 * Throws `INVALID_MIGRATION` for one that the live data has had as another text: under its number it would never run. `live` has
 * the texts of the active version, in their order; a version may have fewer, as one that is gone back to has.
 */
export function checkUnchanged(paths: string[], read: (path: string) => Buffer, live: LiveMigration[]): void {
  const files = migrationsIn(paths);
  for (const [i, path] of files.entries()) {
    const applied = live[i];
    if (applied === undefined || sqlOf(read(path)) === sqlOf(applied.text)) continue;
    const next = String(Math.max(files.length, live.length) + 1).padStart(4, '0');
    const was = applied.path === path ? 'before it was changed' : `as ${applied.path}`;
    throw invalid(
      path,
      `has run on the live data ${was}, and will not run again. Put it back as it was; what is new goes into ${FOLDER}${next}_<slug>.sql`,
    );
  }
}

export type LiveMigration = { path: string; text: Buffer };

/** In the order of their numbers. */
export function migrationsIn(paths: string[]): string[] {
  return paths.filter((path) => path.startsWith(FOLDER) && path.toLowerCase().endsWith('.sql')).sort();
}

/** Line ends are those of the machine that a file was written on. */
function sqlOf(text: Buffer): string {
  return text.toString().replaceAll('\r\n', '\n').trim();
}

function invalid(path: string, reason: string): SvcError {
  return new SvcError('INVALID_MIGRATION', `${path} ${reason.replace(/\.?$/, '.')}`, { path });
}
