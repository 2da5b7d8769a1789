/**
 * Transfers large files over HTTP: backups, and the code of all apps with its history (specification, "Backups" and
 * "Transfer of code").
 */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { DEFAULTS, LIMITS } from '../../../protocol/limits.ts';
import type { BackupSchedule } from '../../../storage/backup/kept.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import { SCHEDULE } from '../../config-shape.ts';
import type { Exchange } from '../../edge/edge.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import { goneSignal, sendStream } from '../../http/send-stream.ts';
import { cronFault } from '../../operations/backup-schedule.ts';
import type { Services } from '../../services.ts';
import { type Body, publicOriginOf, readJson, refusal } from '../requests.ts';

const CHUNK_BYTES = 256 * 1024;

export function transferRoutes(services: Services): Route[] {
  const { backups, scheduledBackups, log } = services;
  return [
    route('POST', '/svc/_backup', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      try {
        await backups.take(gone, (path, signal) => sendFile(exchange, path, 'application/gzip', signal, log));
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    route('GET', '/svc/_backups', 'admin', (exchange) => {
      answerJson(exchange, 200, scheduledBackups.status(), NO_STORE);
    }),
    route('PUT', '/svc/_backups', 'admin', async (exchange) => {
      await scheduledBackups.set(scheduleOf(await readJson(exchange)));
      answerJson(exchange, 200, scheduledBackups.status(), NO_STORE);
    }),
    route('DELETE', '/svc/_backups', 'admin', async (exchange) => {
      await scheduledBackups.set(null);
      answerJson(exchange, 200, scheduledBackups.status(), NO_STORE);
    }),
    route('GET', '/svc/_backups/files', 'admin', async (exchange) => {
      answerJson(exchange, 200, await scheduledBackups.files(), NO_STORE);
    }),
    route('POST', '/svc/_backups/files', 'admin', (exchange) => {
      scheduledBackups.makeNow();
      answerJson(exchange, 202, scheduledBackups.status(), NO_STORE);
    }),
    route('POST', '/svc/_backups/files/:name/verify', 'admin', async (exchange, { name = '' }) => {
      const gone = goneSignal(exchange);
      try {
        answerJson(exchange, 200, await scheduledBackups.verify(name, gone), NO_STORE);
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    route('POST', '/svc/_code/export', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      await gitStoreOf(services).code.export((path) => sendFile(exchange, path, 'application/x-git-bundle', gone, log));
    }),
    route('POST', '/svc/_code/import', 'admin', async (exchange) => {
      const origin = publicOriginOf(exchange.header('host'), services);
      const body = exchange.streamBody(LIMITS.gitBundleBytes, LIMITS.uploadTimeoutMs);
      try {
        answerJson(exchange, 201, await gitStoreOf(services).code.import(body, origin));
      } finally {
        body.destroy();
      }
    }),
  ];
}

function scheduleOf(body: Body): BackupSchedule {
  if (!SCHEDULE.holds(body)) throw refusal(SCHEDULE.fault(body));
  const fault = cronFault(body.cron, Date.now());
  if (fault !== null) throw refusal(fault);
  return { ...DEFAULTS.backups, ...body };
}

/** Answers with a file that was made for this request; `name` is the one that a browser gives it. Its length is announced, so that a reader knows when it has all of it. */
export async function sendFile(
  exchange: Exchange,
  path: string,
  type: string,
  signal: AbortSignal,
  log: Logger,
  name?: string,
): Promise<void> {
  const file = await open(path);
  try {
    const { size: length } = await file.stat();
    const content = file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false });
    const headers = {
      'content-type': type,
      'cache-control': 'no-store',
      ...(name !== undefined && { 'content-disposition': `attachment; filename="${name}"` }),
    };
    await sendStream(exchange, content, headers, log, signal, { length });
  } finally {
    await file.close();
  }
}
