/** The gateway as one file. */
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { sendFile } from './send-file.ts';

export function backupRoutes({ backups, log }: Services): Route[] {
  return [
    {
      method: 'POST',
      path: '/svc/_backup',
      needs: 'admin',
      summary: 'Make a backup of code, data and configuration: a gzipped tar archive, once it is made.',
      handle: async (exchange) => {
        const gone = new AbortController();
        exchange.onAbort(() => gone.abort());
        try {
          await backups.take(gone.signal, (archive, signal) =>
            sendFile(exchange, { path: archive, type: 'application/gzip' }, signal, log),
          );
        } catch (error) {
          if (!gone.signal.aborted) throw error;
        }
      },
    },
  ];
}
