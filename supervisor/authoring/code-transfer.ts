/** Exports the code of all apps with its history as one git bundle, and imports it into an empty gateway. */
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import type { NewWebhook } from '../../protocol/automations/automation.ts';
import { type ErrorBody, type InputIssue, SvcError } from '../../protocol/errors.ts';
import { isAppId } from '../../protocol/ids.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { Git } from '../deployments/store/git-operations.ts';

type CodeTransferOptions = {
  git: Git;
  deployments: Deployments;
  tmpDir: string;
  log: Logger;
};

/**
 * `apps` are live now. `failed` stay on main and can be repaired and published from a workspace, except apps with links and other
 * forbidden files: they are removed from main, which frees their ids.
 */
type Imported = {
  main: string;
  apps: { id: string; versionId: string; warnings?: InputIssue[] }[];
  failed: { id: string; error: ErrorBody }[];
  webhooks: NewWebhook[];
};

export class CodeTransfer {
  readonly #options: CodeTransferOptions;

  constructor(options: CodeTransferOptions) {
    this.#options = options;
  }

  /** Has `send` send a file that is gone when it resolves. */
  async export(send: (path: string) => Promise<void>): Promise<void> {
    await this.#inFile(async (path) => {
      await this.#options.git('exportBundle', { to: path });
      await send(path);
    });
  }

  /**
   * Rejects with `INVALID_BACKUP`, `STORAGE_FULL`, or `RESTORE_TARGET` when the store holds apps already; then no app is live.
   */
  async import(body: Readable, origin: string): Promise<Imported> {
    const { git, deployments } = this.#options;
    body.on('error', () => {});
    if ((await deployments.records()).length > 0)
      throw new SvcError('RESTORE_TARGET', 'Import needs a gateway without apps; use a new data directory.');
    return this.#inFile(async (path) => {
      if (body.errored) throw body.errored;
      await pipeline(body, createWriteStream(path, { flags: 'wx', mode: 0o600 }));
      const { main, apps } = await git('importBundle', { from: path });
      const result: Imported = { main, apps: [], failed: [], webhooks: [] };
      for (const { id, tag } of apps) await this.#adopt(id, tag, origin, result);
      return result;
    });
  }

  async #adopt(id: string, tag: string | null, origin: string, result: Imported): Promise<void> {
    const { deployments, log } = this.#options;
    try {
      if (!isAppId(id) || tag === null)
        throw new SvcError('UNKNOWN_VERSION', 'No tag of the bundle has the files of this app on main.');
      const { webhooks, ...found } = await deployments.registerImported(id, tag, origin);
      result.apps.push({ id, versionId: tag, ...found });
      result.webhooks.push(...webhooks);
    } catch (error) {
      // While no app is live the import can be sent again; it continues where it stopped.
      if (error instanceof SvcError && error.code === 'STORAGE_FULL' && result.apps.length === 0) throw error;
      log.warn({ app: id, err: error }, 'An imported app could not be made live.');
      const shown =
        error instanceof SvcError ? error : new SvcError('INTERNAL', 'The app could not be made live; see the log.');
      result.failed.push({ id, error: shown.toBody() });
      if (isAppId(id) && shown.code.startsWith('ARCHIVE_')) await this.#discard(id);
    }
  }

  async #discard(id: string): Promise<void> {
    try {
      await this.#options.deployments.discardUnregistered(id);
    } catch (error) {
      this.#options.log.warn({ app: id, err: error }, 'An imported app that was refused is still on main.');
    }
  }

  async #inFile<T>(work: (path: string) => Promise<T>): Promise<T> {
    const path = join(this.#options.tmpDir, `code-${randomUUID()}.bundle`);
    try {
      return await work(path);
    } finally {
      await rm(path, { force: true });
    }
  }
}
