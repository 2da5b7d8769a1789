/** `svc backup`: code, data and configuration of a gateway in one file, verified before it gets its name. */
import { randomUUID } from 'node:crypto';
import { createWriteStream, existsSync, rmSync, statSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { BACKUP_EXTENSION, type BackupManifest } from '../../protocol/backup.ts';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { syncDir } from '../../storage/atomic-file.ts';
import { readBackup } from '../../storage/backup/read.ts';
import type { CommandContext } from '../command.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import type { Client } from '../gateway/client.ts';
import { resolvesToHere } from '../gateway/connection.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { interruptible } from '../interrupt.ts';
import { backupFacts, printFacts } from './backup-facts.ts';

export async function run(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  const file = outputFile(resolve(cwd, args.optionalAt(0) ?? '.'), context);
  const unfinished = join(dirname(file), `.${basename(file)}.${randomUUID()}.tmp`);
  if (terminal.interactive) terminal.note(terminal.noteStyle('dim', 'Making a backup …'));
  const manifest = await interruptible(async (signal) => {
    try {
      await write(context, unfinished, signal);
      // What counts is what can be read back.
      const read = await readBackup(unfinished, null, signal);
      await sync(unfinished);
      await rename(unfinished, file);
      await syncDir(dirname(file));
      return read;
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw explainWriting(error, file, context);
    }
  });
  const { size } = statSync(file);
  report(context, file, size, manifest);
}

function report({ terminal, ...context }: CommandContext, file: string, bytes: number, manifest: BackupManifest): void {
  const facts = backupFacts(manifest);
  terminal.answer({ file, archiveBytes: bytes, ...facts }, () => {
    const name = terminal.style('bold', shortPath(file, context));
    printFacts(terminal, `${name} is written and verified`, facts, bytes);
  });
}

/** By the gateway that runs; from the data directory when it is here and none does. */
async function write(context: CommandContext, file: string, signal: AbortSignal): Promise<void> {
  try {
    const client = context.connect();
    await download(client, file, signal);
  } catch (error) {
    if (!(error instanceof UnreachableError) || !resolvesToHere(context)) throw error;
    const { backUpStopped } = await import('../gateway/stopped-gateway.ts');
    if (!(await backUpStopped(context.dataDirectory, file, signal))) throw error;
  }
}

async function download(client: Client, file: string, signal: AbortSignal): Promise<void> {
  const answer = await client.download('/svc/_backup', LIMITS.backupWaitMs, signal);
  try {
    await pipeline(answer, createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    throw new CommandError('The gateway ended before the backup was complete.', 'Check its log and try again.');
  }
}

/** A folder gets a name made from the time. What is there already is never replaced. */
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

function explainWriting(error: unknown, file: string, context: CommandContext): unknown {
  if (!isDiskFull(error)) return error;
  const folder = shortPath(dirname(file), context);
  return new SvcError('STORAGE_FULL', `There is not enough space in ${folder}; nothing was written.`, {
    cause: error,
  });
}
