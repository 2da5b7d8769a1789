/** What goes in and out as one large file: backups, and the code of all apps with its history (decisions, section 7). */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange } from '../edge/edge.ts';
import { answerJson } from '../http/answers.ts';
import { type Route, route } from '../http/router.ts';
import { goneSignal, sendStream } from '../http/send-stream.ts';
import type { Services } from '../services.ts';
import { gitStoreOf } from './drafts.ts';
import { publicOriginOf } from './requests.ts';

const CHUNK_BYTES = 256 * 1024;

export function transferRoutes(services: Services): Route[] {
  const { backups, log } = services;
  return [
    route('POST', '/svc/_backup', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      try {
        await backups.take(gone, (path, signal) => sendFile(exchange, path, 'application/gzip', signal, log));
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    route('POST', '/svc/_code/export', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      await gitStoreOf(services).code.export((path) => sendFile(exchange, path, 'application/x-git-bundle', gone, log));
    }),
    route('POST', '/svc/_code/import', 'admin', async (exchange) => {
      const origin = publicOriginOf(exchange, services);
      const body = exchange.streamBody(LIMITS.gitBundleBytes, LIMITS.uploadTimeoutMs);
      try {
        answerJson(exchange, 201, await gitStoreOf(services).code.import(body, origin));
      } finally {
        body.destroy();
      }
    }),
  ];
}

/** Answers with a file that was made for this request. */
async function sendFile(
  exchange: Exchange,
  path: string,
  type: string,
  signal: AbortSignal,
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  const file = await open(path);
  try {
    const content = file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false });
    await sendStream(exchange, content, { 'content-type': type, 'cache-control': 'no-store' }, log, signal);
  } finally {
    await file.close();
  }
}
