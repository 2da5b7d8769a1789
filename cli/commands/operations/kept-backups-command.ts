/** `svc backup ls`, `now` and `verify` of what the gateway keeps in its own folder. */
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../../protocol/text/units.ts';
import { BACKUP_EXTENSION } from '../../../storage/backup/format.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError } from '../../failure.ts';
import type { Client } from '../../gateway/client.ts';
import { readAll, showList } from '../../resource.ts';
import { BACKUPS } from '../../resources.ts';

const ASKED_AGAIN_MS = 500;

/** Whether it may be a name of the gateway's list: one without a folder. */
export const isKeptName = (named: string): boolean => named === basename(named) && named.endsWith(BACKUP_EXTENSION);

/** Those that the gateway keeps in its folder. */
export async function listKept(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  args.endsAt(1, () => `svc backup ${args.at(0)}`);
  const client = connect();
  const files = await readAll(client, BACKUPS);
  const none = files.length > 0 ? BACKUPS.none() : await reasonForNone(client);
  showList(terminal, { ...BACKUPS, none: () => none }, files);
  const [newest] = files;
  if (newest !== undefined && !terminal.json)
    terminal.hint(`In ${dirname(newest.file)} on the machine of the gateway.`);
}

/** The backups may be on a disk that is not mounted. */
async function reasonForNone(client: Client): Promise<string> {
  const { lastSuccess } = await client.call('GET /svc/_backups');
  if (lastSuccess === null) return BACKUPS.none();
  const folder = dirname(lastSuccess.file);
  return `The backups that were made in ${folder} are missing. Is its disk mounted? If it is, make one: svc backup now`;
}

/** Lets the gateway make one in its folder, and waits for it. */
export async function makeKept(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  args.endsAt(1, () => `svc backup ${args.at(0)}`);
  const client = connect();
  const before = await client.call('POST /svc/_backups/files');
  if (terminal.interactive) terminal.hint('Making a backup …');
  let status = before;
  while (status.running) {
    await sleep(ASKED_AGAIN_MS);
    status = await client.call('GET /svc/_backups');
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

/** The gateway reads the file; its error says what is wrong. */
export async function verifyKept({ terminal, connect }: CommandContext, name: string): Promise<void> {
  if (terminal.interactive) terminal.hint('The gateway reads it …');
  const kept = await connect().call('POST /svc/_backups/files/:name/verify', { params: { name } });
  terminal.answer(kept, () => {
    terminal.done(`${terminal.style('bold', kept.name)} is intact`);
    terminal.facts({ file: kept.file, archive: formatBytes(kept.bytes) });
    if (kept.damaged) terminal.warn('A database in it was damaged when the backup was made.');
  });
}
