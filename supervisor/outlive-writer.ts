/** Statements of the gateway's own outlive a writer that dies with them: they are sent to the one that takes its place. */

import { LIMITS } from '../protocol/limits.ts';
import { DbError } from '../protocol/wire/db-client.ts';

/**
 * Asks again when the writer was lost, `LIMITS.writerLostTries` times. What was lost may have been stored all the same, so
 * whatever is asked here must be harmless when it runs twice. `onLost` tells each loss.
 */
export async function survive<T>(ask: () => Promise<T>, onLost: () => void = () => {}): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof DbError) || error.code !== 'WRITER_LOST' || tries > LIMITS.writerLostTries) throw error;
      onLost();
    }
  }
}
