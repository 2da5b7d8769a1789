/** `svc backup` and `svc restore`: code, data and configuration of a gateway in one verified file, and back. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { isDiskFull, SvcError } from '../../../protocol/errors.ts';
import { requestOf } from '../../../protocol/http/client.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { formatBytes, formatCount, plural } from '../../../protocol/text/units.ts';
import { readStoreMark } from '../../../storage/apps/linked-code.ts';
import { readEntries } from '../../../storage/apps/registry.ts';
import { BACKUP_EXTENSION, type BackupManifest, damagedIn } from '../../../storage/backup/format.ts';
import { makeBackup } from '../../../storage/backup/make-backup.ts';
import { BackupWorkspace, packPart } from '../../../storage/backup/pack.ts';
import { readBackup, restoreBackup, verifyBackup } from '../../../storage/backup/read-backup.ts';
import { checkFormat } from '../../../storage/data-format.ts';
import { syncDir, temporaryBeside } from '../../../storage/files/atomic-file.ts';
import { Layout } from '../../../storage/layout.ts';
import { reapChildren } from '../../../storage/processes/children.ts';
import { acquireDataLock } from '../../../storage/processes/data-lock.ts';
import { tagOf } from '../../../storage/processes/tagged.ts';
import { type CommandContext, interruptible, packageVersion } from '../../command.ts';
import { CommandError, UnreachableError, UsageError } from '../../failure.ts';
import { resolvesToHere } from '../../gateway/connection.ts';
import { shellPath, shortPath } from '../../terminal/paths.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { formatMoment } from '../../terminal/units.ts';
import { isKeptName, listKept, makeKept, verifyKept } from './kept-backups-command.ts';

const KEEP_HINT = 'svc backup --schedule "0 3 * * *" --keep 14';

export async function backup(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  if (args.has('schedule')) return schedule(context);
  if (args.has('keep')) throw new UsageError('--keep goes with --schedule.', KEEP_HINT);
  if (args.optionalAt(0) === 'verify') return verify(context);
  if (args.optionalAt(0) === 'ls') return listKept(context);
  if (args.optionalAt(0) === 'now') return makeKept(context);
  args.endsAt(1, () => 'One file, or: svc backup verify <file>');
  const file = outputFile(resolve(cwd, args.optionalAt(0) ?? '.'), context);
  const unfinished = temporaryBeside(file);
  if (terminal.interactive) terminal.hint('Making a backup …');
  const manifest = await interruptible(async (signal) => {
    try {
      await write(context, unfinished, signal);
      const read = await readBackup(unfinished, { check: () => signal.throwIfAborted() });
      await sync(unfinished);
      await rename(unfinished, file);
      await syncDir(dirname(file));
      return read;
    } catch (error) {
      rmSync(unfinished, { force: true });
      const folder = shortPath(dirname(file), context);
      throw explainFull(error, `There is not enough space in ${folder}; nothing was written.`);
    }
  });
  const { size } = statSync(file);
  const facts = factsOf(manifest);
  terminal.answer({ file, archiveBytes: size, ...facts }, () => {
    const name = terminal.style('bold', shortPath(file, context));
    printFacts(terminal, `${name} is written and verified`, facts, size);
  });
}

/** Reads a backup as `restore` would, without writing it anywhere. The gateway reads those that it keeps, by their names. */
async function verify(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  const named = args.optionalAt(1);
  if (named === undefined) throw new UsageError('<file> is missing.', 'svc backup verify <file>');
  if (!existsSync(resolve(cwd, named)) && isKeptName(named)) return verifyKept(context, named);
  const file = existingFile(resolve(cwd, named), context);
  if (terminal.interactive) terminal.hint('Reading it …');
  const folder = mkdtempSync(join(tmpdir(), 'svc-verify-'));
  try {
    const manifest = await interruptible((signal) =>
      verifyBackup(file, join(folder, 'database.sqlite'), () => signal.throwIfAborted()),
    );
    const { size } = statSync(file);
    const facts = factsOf(manifest);
    terminal.answer({ file, archiveBytes: size, ...facts }, () => {
      printFacts(terminal, `${terminal.style('bold', shortPath(file, context))} is intact`, facts, size);
    });
  } catch (error) {
    throw explainFull(error, `There is not enough space in ${tmpdir()} for its largest database; set TMPDIR.`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Tells the gateway when to make backups, or to make no more. */
async function schedule(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  const client = context.connect();
  const cron = args.text('schedule') as string;
  if (args.optionalAt(1) !== undefined)
    throw new UsageError('With --schedule, name at most one folder.', 'svc backup [folder] --schedule "0 3 * * *"');
  if (cron === 'off') {
    const status = await client.call('DELETE /svc/_backups');
    terminal.answer(status, () => terminal.done('The schedule is off; existing backups stay.'));
    return;
  }
  const keep = args.number('keep', 1, LIMITS.backupsKept);
  const folder = args.optionalAt(0);
  const isHere = resolvesToHere({ url: args.text('url'), dataDir: args.text('data-dir') }, context);
  if (folder !== undefined && !isHere && !isAbsolute(folder))
    throw new UsageError(`"${folder}" is a folder on the machine of the gateway: give its absolute path.`, KEEP_HINT);
  const dir = folder === undefined ? {} : { dir: resolve(cwd, folder) };
  const body = { cron, ...(keep !== undefined && { keep }), ...dir };
  const status = await client.call('PUT /svc/_backups', { body });
  terminal.answer(status, () => {
    const set = status.schedule as NonNullable<typeof status.schedule>;
    terminal.done(`Backups are made on schedule: ${terminal.style('bold', set.cron)}`);
    terminal.facts({
      next: status.nextAt === null ? null : formatMoment(status.nextAt).replace(/\.\d+$/, ''),
      in: shortPath(set.dir, context),
      keeps: `the newest ${formatCount(set.keep)}`,
    });
  });
}

/** A running gateway makes the backup. A stopped gateway of this machine is backed up from its data directory. */
async function write(context: CommandContext, file: string, signal: AbortSignal): Promise<void> {
  const { args, dataDirectory } = context;
  try {
    await context.connect().download(requestOf('POST /svc/_backup'), file, signal);
  } catch (error) {
    const flags = { url: args.text('url'), dataDir: args.text('data-dir') };
    if (!(error instanceof UnreachableError) || !resolvesToHere(flags, context)) throw error;
    if (!(await backUpStopped(dataDirectory, file, signal))) throw error;
  }
}

/**
 * False if the directory has no data of a gateway, or the apps are elsewhere (`appsDir`). Throws `DataLockedError` if a
 * gateway runs on it after all, the signal's reason, and the errors of packing; there is no `file` then.
 */
async function backUpStopped(dataDirectory: string, file: string, signal: AbortSignal): Promise<boolean> {
  const mark = await readStoreMark(new Layout(dataDirectory));
  const layout = new Layout(dataDirectory, undefined, mark?.root ?? undefined);
  if ((await readEntries(layout.registry)) === null) return false;
  const lock = acquireDataLock(layout.lock);
  // Beside the file, so that a rename puts it there.
  const folder = mkdtempSync(join(dirname(file), `${basename(file)}-`));
  try {
    // The writer of a killed gateway may still be running.
    await reapChildren(layout.children, tagOf(layout.dataDir));
    const found = await checkFormat(layout);
    const apps = (await readEntries(layout.registry)) ?? new Map<string, number>();
    const workspace = new BackupWorkspace(folder);
    await makeBackup({
      layout,
      config: null,
      svcVersion: packageVersion(),
      takenAt: Date.now(),
      dataFormat: found?.format ?? 0,
      apps: [...apps.keys()].sort(),
      hold: async (id, work) => {
        await work();
        return apps.get(id) ?? null;
      },
      pack: (work) => packPart(workspace, work, () => signal.throwIfAborted()),
    });
    await rename(workspace.archive, file);
    return true;
  } finally {
    rmSync(folder, { recursive: true, force: true });
    lock.release();
  }
}

/** In a folder, the name comes from the time. An existing file is never replaced. */
function outputFile(path: string, context: CommandContext): string {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const file = isFolder ? join(path, `svc-${stamp}${BACKUP_EXTENSION}`) : path;
  const shown = shortPath(file, context);
  if (existsSync(file)) throw new CommandError(`${shown} already exists.`, 'Name another file, or move it away.');
  if (!existsSync(dirname(file))) throw new CommandError(`The folder for ${shown} does not exist.`, 'Make it first.');
  return file;
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

export async function restore(context: CommandContext): Promise<void> {
  const { args, terminal, cwd, dataDirectory } = context;
  const file = resolve(cwd, args.at(0));
  const place = shortPath(dataDirectory, context);
  if (!args.has('data-dir'))
    throw new UsageError('Name the directory to restore to.', `svc restore ${shellPath(args.at(0))} --data-dir <dir>`);
  existingFile(file, context);
  const manifest = await interruptible(async (signal) => {
    try {
      return await restoreBackup(file, dataDirectory, signal);
    } catch (error) {
      throw explainFull(error, `There is not enough space for ${place}; nothing was left there.`);
    }
  });
  const facts = factsOf(manifest);
  const config = join(dataDirectory, 'config.json');
  const isConfigured = existsSync(config) && readFileSync(config, 'utf8').trim() !== '{}';
  terminal.answer({ dataDir: dataDirectory, config: isConfigured ? config : null, ...facts }, () => {
    printFacts(terminal, `restored into ${terminal.style('bold', place)}, verified`, facts, statSync(file).size);
    const withConfig = isConfigured ? ` --config ${shellPath(shortPath(config, context))}` : '';
    terminal.facts({ next: `svc serve --data-dir ${shellPath(place)}${withConfig}` });
    terminal.note('The gateway makes a new access token when it starts: the old one is not in a backup.');
  });
}

function existingFile(file: string, context: CommandContext): string {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === true) return file;
  throw new CommandError(`There is no file ${shortPath(file, context)}.`, 'Name a file that "svc backup" wrote.');
}

function explainFull(error: unknown, message: string): unknown {
  return isDiskFull(error) ? new SvcError('STORAGE_FULL', message, { cause: error }) : error;
}

/** `damaged` lists what was already damaged or lost when the backup was taken; `bytes` is the unpacked size. */
function factsOf(manifest: BackupManifest) {
  const { takenAt, svcVersion, files, databases } = manifest;
  const apps = new Set(
    files.map(({ path }) => /^apps\/([^/_][^/]*)\//.exec(path)?.[1]).filter((id) => id !== undefined),
  );
  // SQLite's own tables are not counted.
  const tables = databases.flatMap((database) => database.tables).filter(({ name }) => !name.startsWith('sqlite_'));
  return {
    takenAt,
    svcVersion,
    apps: apps.size,
    files: files.length,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    databases: databases.length,
    rows: tables.reduce((sum, table) => sum + table.rows, 0),
    damaged: damagedIn(manifest),
  };
}

export function printFacts(
  terminal: Terminal,
  title: string,
  facts: ReturnType<typeof factsOf>,
  archiveBytes: number,
): void {
  terminal.done(title);
  terminal.facts({
    taken: facts.takenAt,
    holds: `${plural(facts.apps, 'app')}, ${plural(facts.files, 'file')}, ${formatBytes(facts.bytes)}`,
    data: `${plural(facts.databases, 'database')}, ${plural(facts.rows, 'row')}, checked by SQLite`,
    archive: formatBytes(archiveBytes),
  });
  for (const { path, integrity } of facts.damaged)
    terminal.warn(`${path} was damaged when the backup was taken: ${integrity}`);
}
