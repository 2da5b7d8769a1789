/**
 * Transfers large files over HTTP: backups, and the code of all apps with its history (specification, "Backups" and
 * "Transfer of code").
 */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { DEFAULTS, LIMITS } from '../../../protocol/limits.ts';
import {
  listBackupFiles,
  makeBackupFile,
  removeBackups,
  sendBackup,
  setBackups,
  showBackups,
  verifyBackupFile,
} from '../../../protocol/routes/operations/backups-rows.ts';
import { exportCode, importCode } from '../../../protocol/routes/operations/code-rows.ts';
import { inWords } from '../../../protocol/shapes/shape.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Exchange } from '../../edge/edge.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { goneSignal, sendStream } from '../../http/send-stream.ts';
import { cronFault } from '../../operations/backup-schedule.ts';
import type { Services } from '../../services.ts';
import { publicOriginOf, refuse } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

const CHUNK_BYTES = 256 * 1024;

export function transferRoutes(services: Services): Route[] {
  const { backups, scheduledBackups, log } = services;
  return [
    ...serveRaw(sendBackup, async (exchange) => {
      const gone = goneSignal(exchange);
      try {
        await backups.make(gone, (path, signal) => sendFile(exchange, path, sendBackup.answer.media, signal, log));
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    ...serve(showBackups, () => scheduledBackups.status()),
    ...serve(setBackups, async ({ body }) => {
      const fault = cronFault(body.cron, Date.now());
      if (fault !== null) refuse(fault.path, inWords(fault, 'The body'));
      await scheduledBackups.set({ ...DEFAULTS.backups, ...body });
      return scheduledBackups.status();
    }),
    ...serve(removeBackups, async () => {
      await scheduledBackups.set(null);
      return scheduledBackups.status();
    }),
    ...serve(listBackupFiles, () => scheduledBackups.files()),
    ...serve(makeBackupFile, () => {
      scheduledBackups.makeNow();
      return scheduledBackups.status();
    }),
    ...serveRaw(verifyBackupFile, async (exchange, { name = '' }) => {
      const gone = goneSignal(exchange);
      try {
        answerJson(exchange, 200, await scheduledBackups.verify(name, gone), NO_STORE);
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    ...serveRaw(exportCode, async (exchange) => {
      const gone = goneSignal(exchange);
      await gitStoreOf(services).code.export((path) => sendFile(exchange, path, exportCode.answer.media, gone, log));
    }),
    ...serveRaw(importCode, async (exchange, _params, caller) => {
      const origin = publicOriginOf(exchange.header('host'), services);
      const body = exchange.streamBody(LIMITS.gitBundleBytes, LIMITS.uploadTimeoutMs);
      try {
        const imported = await gitStoreOf(services).code.import(body, origin);
        for (const { id, versionId } of imported.apps)
          await services.audit.record(caller, 'app.published', id, { version: versionId });
        answerJson(exchange, 201, imported);
      } finally {
        body.destroy();
      }
    }),
  ];
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
