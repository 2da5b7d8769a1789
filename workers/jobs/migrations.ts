/** Checks the `migrations/` of a version before it is stored (specification, "Migrations"). */
import { SvcError } from '../../protocol/errors.ts';
import { refuseMigration } from '../../protocol/rules/sql.ts';

const FOLDER = 'migrations/';
const NAME = /^(\d{4})_[a-z0-9][a-z0-9_-]*\.sql$/;

/**
 * Counts the migrations among the files of a version: numbered from 1 without a gap. Throws `INVALID_MIGRATION` with the file
 * in `path`. Other files, such as a README, do not count.
 */
export function checkMigrations(paths: string[], read: (path: string) => Buffer): number {
  const files = migrationsIn(paths);
  for (const [i, path] of files.entries()) {
    const number = numberOf(path);
    if (number === undefined) {
      throw invalid(path, 'must be named NNNN_<slug>.sql, the slug of a-z, 0-9, "-" and "_", directly in migrations/');
    }
    if (Number(number) !== i + 1) {
      const twin = files[i - 1];
      const isTwice = twin !== undefined && numberOf(twin) === number;
      throw invalid(
        path,
        isTwice ? `has a number that is there twice: ${twin} has it too` : `leaves a gap: ${padded(i + 1)} comes next`,
      );
    }
    const refusal = refuseMigration(read(path).toString());
    if (refusal !== null) throw invalid(path, `has on line ${refusal.line}: ${refusal.message}`);
  }
  return files.length;
}

/**
 * Throws `INVALID_MIGRATION` for one that ran on the live data with another text: the new text would never run. `live` has the
 * texts of the active version, in order; a version may have fewer.
 */
export function checkUnchanged(paths: string[], read: (path: string) => Buffer, live: LiveMigration[]): void {
  const files = migrationsIn(paths);
  for (const [i, path] of files.entries()) {
    const applied = live[i];
    if (applied === undefined || sqlOf(read(path)) === sqlOf(applied.text)) continue;
    const next = padded(Math.max(files.length, live.length) + 1);
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

/** Line ends depend on the author's machine. */
function sqlOf(text: Buffer): string {
  return text.toString().replaceAll('\r\n', '\n').trim();
}

/**
 * Two workspaces may each have added the next migration. `merged` are the app's files with what was published since, `added` those
 * that only the workspace has, `lacking` those that it lacks. Throws `INVALID_MIGRATION` with the workspace's file in `path`, and with
 * both in `files` when the workspace lacks the other one.
 */
export function checkAddedMigrations(
  merged: string[],
  { added, lacking }: Record<'added' | 'lacking', string[]>,
): void {
  const published = merged.filter((path) => numberOf(path) !== undefined && !added.includes(path));
  const next = padded(Math.max(0, ...published.map((path) => Number(numberOf(path)))) + 1);
  for (const path of added) {
    const number = numberOf(path);
    const other = number === undefined ? undefined : published.find((taken) => numberOf(taken) === number);
    if (other === undefined) continue;
    const reason = `has the number of ${other}, which was published`;
    if (!lacking.includes(other)) throw invalid(path, `${reason}; rename it: ${next} comes next`);
    const advice = `Update the app in the workspace, then rename its own: ${next} comes next`;
    throw invalid(path, `${reason} meanwhile. ${advice}`, [path, other]);
  }
}

function numberOf(path: string): string | undefined {
  return path.startsWith(FOLDER) ? NAME.exec(path.slice(FOLDER.length))?.[1] : undefined;
}

function padded(number: number): string {
  return String(number).padStart(4, '0');
}

function invalid(path: string, reason: string, files?: string[]): SvcError {
  const extra = files === undefined ? { path } : { path, files };
  return new SvcError('INVALID_MIGRATION', `${path} ${reason.replace(/\.?$/, '.')}`, extra);
}
