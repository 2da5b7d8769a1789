/** Sends the gateway's own statements again to the next writer when a writer dies with them. */

import { LIMITS } from '../protocol/limits.ts';
import { DbError } from '../protocol/wire/db-error.ts';

/**
 * Asks again when the writer was lost, `LIMITS.writerLostTries` times. A lost statement may have been stored, so it must be
 * harmless when it runs twice. Calls `onLost` for each loss.
 */
export async function retryIfWriterLost<T>(ask: () => Promise<T>, onLost: () => void = () => {}): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof DbError) || error.code !== 'WRITER_LOST' || tries > LIMITS.writerLostTries) throw error;
      onLost();
    }
  }
}
