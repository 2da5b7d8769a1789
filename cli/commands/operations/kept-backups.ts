/** `svc backup ls`, `now` and `verify` of what the gateway keeps in its own folder. */
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BackupFile } from '../../../storage/backup/folder.ts';
import { BACKUP_EXTENSION } from '../../../storage/backup/format.ts';
import type { BackupStatus } from '../../../supervisor/operations/scheduled-backups.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { route } from '../../gateway/api.ts';
import type { Client } from '../../gateway/client.ts';
import { type Column, right } from '../../terminal/table.ts';
import { formatAge, formatBytes } from '../../terminal/units.ts';

const ASKED_AGAIN_MS = 500;

/** Whether it may be a name of the gateway's list: one without a folder. */
export const isKeptName = (named: string): boolean => named === basename(named) && named.endsWith(BACKUP_EXTENSION);

/** Those that the gateway keeps in its folder. */
export async function listKept(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  noMore(context);
  const client = connect();
  const files = await client.get<BackupFile[]>('/svc/_backups/files');
  const now = Date.now();
  const whenNone = files.length > 0 ? '' : await reasonForNone(client);
  const columns: Column[] = [{ title: 'FILE', squeeze: true }, 'MADE', right('SIZE'), { title: 'STATE', drop: 1 }];
  terminal.list(files, whenNone, columns, ({ name, bytes, madeAt, damaged }) => [
    { text: name, format: 'bold' },
    formatAge(madeAt, now),
    formatBytes(bytes),
    damaged ? { text: 'a database is damaged', format: 'red' } : { text: 'verified', format: 'green' },
  ]);
  const [newest] = files;
  if (newest !== undefined && !terminal.json)
    terminal.hint(`In ${dirname(newest.file)} on the machine of the gateway.`);
}

/** The backups may be on a disk that is not mounted. */
async function reasonForNone(client: Client): Promise<string> {
  const { lastSuccess } = await client.get<BackupStatus>('/svc/_backups');
  if (lastSuccess === null) return 'The gateway keeps no backups. Make one: svc backup now';
  const folder = dirname(lastSuccess.file);
  return `The backups that were made in ${folder} are missing. Is its disk mounted? If it is, make one: svc backup now`;
}

/** Lets the gateway make one in its folder, and waits for it. */
export async function makeKept(context: CommandContext): Promise<void> {
  const { terminal, connect } = context;
  noMore(context);
  const client = connect();
  const before = await client.post<BackupStatus>('/svc/_backups/files');
  if (terminal.interactive) terminal.hint('Making a backup …');
  let status = before;
  while (status.running) {
    await sleep(ASKED_AGAIN_MS);
    status = await client.get<BackupStatus>('/svc/_backups');
  }
  const { lastSuccess, lastFailure } = status;
  if (lastFailure !== null && lastFailure.at !== before.lastFailure?.at)
    throw new CommandError(lastFailure.message, 'See their state: svc status');
  if (lastSuccess === null || lastSuccess.at === before.lastSuccess?.at)
    throw new CommandError('The gateway stopped before the backup was made.', 'Start it, and try again.');
  terminal.answer(lastSuccess, () => {
    terminal.done(`${terminal.style('bold', basename(lastSuccess.file))} is made and verified`);
    terminal.facts({ in: dirname(lastSuccess.file), archive: formatBytes(lastSuccess.bytes) });
  });
}

function noMore({ args }: CommandContext): void {
  const extra = args.optionalAt(1);
  if (extra !== undefined) throw new UsageError(`"${extra}" is one argument too many.`, `svc backup ${args.at(0)}`);
}

/** The gateway reads the file; its error says what is wrong. */
export async function verifyKept({ terminal, connect }: CommandContext, name: string): Promise<void> {
  if (terminal.interactive) terminal.hint('The gateway reads it …');
  const kept = await connect().post<BackupFile>(route`/svc/_backups/files/${name}/verify`);
  terminal.answer(kept, () => {
    terminal.done(`${terminal.style('bold', kept.name)} is intact`);
    terminal.facts({ file: kept.file, archive: formatBytes(kept.bytes) });
    if (kept.damaged) terminal.warn('A database in it was damaged when the backup was made.');
  });
}
