/** Checks the schedule of backups from the configuration and requests (specification, "Backups"). */
import { checkExpression } from '../../protocol/automations/cron-expression.ts';
import { CRON_FORM } from '../../protocol/routes/operations/backups-rows.ts';
import type { Fault } from '../../protocol/shapes/shape.ts';
import type { BackupSchedule } from '../../storage/backup/kept.ts';

export type ConfiguredSchedule = Pick<BackupSchedule, 'cron'> & Partial<BackupSchedule>;

/** Null for a sound expression. `firesAfter`, in milliseconds: it must fire after that. */
export function cronFault(cron: string, firesAfter: number | null): Fault | null {
  try {
    checkExpression(cron, firesAfter);
    return null;
  } catch (error) {
    const { message } = error as Error;
    return { path: 'cron', wanted: `${CRON_FORM}${message.startsWith('is no ') ? '' : `; it ${message}`}` };
  }
}
