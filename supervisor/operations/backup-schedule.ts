/** Checks the schedule of backups from the configuration and requests (decisions, section 14). */
import type { EntryFault } from '../../protocol/entry-checks.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { checkExpression } from '../../protocol/rules/cron-expression.ts';
import type { BackupSchedule } from '../../storage/backup/record.ts';

export type ConfiguredSchedule = Pick<BackupSchedule, 'cron'> & Partial<BackupSchedule>;

const CRON_FORM = 'a cron expression such as "0 3 * * *" (minute, hour, day, month, day of the week)';

/** Null for a sound one. `firesAfter`, in milliseconds: it must fire after that. */
export function scheduleFault(value: unknown, firesAfter: number | null = null): string | EntryFault | null {
  const wanted = '{ "cron", "keep"?, "dir"? }';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wanted;
  const { cron, keep, dir, ...more } = value as Record<string, unknown>;
  if (Object.keys(more).length > 0) return wanted;
  const cronFault = faultOf(cron, firesAfter);
  if (cronFault !== null) return { at: 'cron', wanted: cronFault };
  if (
    keep !== undefined &&
    !(Number.isInteger(keep) && (keep as number) >= 1 && (keep as number) <= LIMITS.backupsKept)
  )
    return { at: 'keep', wanted: `an integer from 1 to ${LIMITS.backupsKept}` };
  const isFolder =
    typeof dir === 'string' && dir !== '' && dir.length <= LIMITS.backupFolderChars && !dir.includes('\0');
  if (dir !== undefined && !isFolder) return { at: 'dir', wanted: 'a folder' };
  return null;
}

function faultOf(cron: unknown, firesAfter: number | null): string | null {
  if (typeof cron === 'string') {
    try {
      checkExpression(cron, firesAfter);
      return null;
    } catch (error) {
      const { message } = error as Error;
      return `${CRON_FORM}${message.startsWith('is no ') ? '' : `; it ${message}`}`;
    }
  }
  return CRON_FORM;
}
