/** Ids of signed webhook messages that were taken, so that none is taken twice. Statements for the batch that stores the run. Pure. */
import type { SqlStatement } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** One message as its sender names it. */
export type WebhookMessage = { slug: string; webhookId: string };

/** A run of another message makes the column null, which it may not be: the batch fails. The same run may come again. */
const CLAIM = `INSERT INTO webhook_ids (slug, webhook_id, run_id, at) VALUES (?, ?, ?, ?)
  ON CONFLICT (slug, webhook_id) DO UPDATE SET run_id = CASE WHEN run_id = excluded.run_id THEN run_id END`;

/** Takes the message for a run. `now` in milliseconds since the epoch. */
export function claimMessage({ slug, webhookId }: WebhookMessage, runId: string, now: number): SqlStatement[] {
  // A message is valid for so long at most: its time may be that far off, to either side.
  const forgotten = now - 2 * LIMITS.webhookToleranceMs;
  return [
    ['DELETE FROM webhook_ids WHERE at < ?', [forgotten]],
    [CLAIM, [slug, webhookId, runId, now]],
  ];
}

/** The run failed: its sender may try again. */
export function releaseMessage(runId: string): SqlStatement {
  return ['DELETE FROM webhook_ids WHERE run_id = ?', [runId]];
}

/** Whether a batch failed because the message was taken before. */
export function isReplay(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === 'SQLITE_CONSTRAINT_NOTNULL' && String(message).includes('webhook_ids.run_id');
}
