/**
 * Stores files that go with messages to agents, by their SHA-256 in the folder of the app, with a row for each (specification,
 * "Conversations").
 */
import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { TurnAttachment } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { unknownApp } from '../../../storage/apps/registry.ts';
import { sweepTemporary } from '../../../storage/apps/trash.ts';
import {
  ATTACHED_BYTES,
  type AttachmentRecord,
  DELETE_ATTACHMENT,
  DELETE_DUE_ATTACHMENT,
  DUE_ATTACHMENTS,
  GET_ATTACHMENT,
  insertAttachment,
} from '../../../storage/chat/chat-tables.ts';
import { isMissing, namesIn, removeDurable, syncDir } from '../../../storage/files/atomic-file.ts';
import type { Layout } from '../../../storage/layout.ts';
import { retryIfWriterLost } from '../../retry-if-writer-lost.ts';
import type { RuntimeTables } from '../../runtime/runtime-databases.ts';
import { SerialByKey, UnderWay } from '../../serial.ts';

const SHA256 = /^[0-9a-f]{64}$/;
const IMAGE = /^image\/(?:png|jpeg|gif|webp)\s*(?:;|$)/i;
const TEXT = /^(?:text\/|application\/(?:json|xml|javascript|sql|x-ndjson|yaml)\b|[^;]+\+(?:json|xml)\s*(?:;|$))/i;
const UNKNOWN = 'The app has no attachment of this sha256; upload it first.';
/** Characters of the SHA-256 that name a file without a name. */
const NAME_CHARS = 12;

type AttachmentsOptions = {
  /** Those of conversations. */
  tables: RuntimeTables;
  layout: Layout;
  log: Pick<Logger, 'warn'>;
  /** Why an app takes no calls here; null where it does, or is none. */
  refusalOf?: (app: string) => SvcError | null;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/**
 * An attachment stays while a turn names it, and for `LIMITS.attachmentKeepMs` after it was last uploaded: that long a message
 * may take to be sent. There is a file wherever there is a row; a crash leaves at most a file without one.
 */
export class Attachments {
  readonly #options: Required<AttachmentsOptions>;
  readonly #serial = new SerialByKey();
  /** Changes of the folders of apps. */
  readonly #changing = new UnderWay();
  #sweeping: NodeJS.Timeout | null = null;
  #stopped = false;

  constructor(options: AttachmentsOptions) {
    this.#options = { now: Date.now, refusalOf: () => null, ...options };
  }

  /** Removes what a crash left in the folders of these apps, and what is over, now and every day. Never rejects. */
  async serve(apps: readonly string[]): Promise<void> {
    // It is called in the background: a stop may come first.
    if (this.#stopped) return;
    this.#sweeping ??= setInterval(() => void this.#logged(() => this.sweep()), LIMITS.dayMs).unref();
    await this.recover(apps);
    await this.#logged(() => this.sweep());
  }

  /** Removes what a crash left in the folders of these apps. Never rejects. */
  async recover(apps: readonly string[]): Promise<void> {
    await this.#logged(async () => {
      for (const app of apps) await this.#clear(app);
    });
  }

  /** Another node goes on with an app: resolves when nothing changes its folder here any more. */
  release(app: string): Promise<void> {
    return this.#changing.settled(app);
  }

  stop(): void {
    this.#stopped = true;
    if (this.#sweeping !== null) clearInterval(this.#sweeping);
  }

  /** Durable when it resolves; `created` is false for what was there. Rejects as the body does, with `UNKNOWN_APP`, and with `CONFLICT` when there are too many. */
  async store(app: string, body: Readable, type: string): Promise<AttachmentRecord & { created: boolean }> {
    // It may fail before it is read, and an error without a listener would end the process.
    body.on('error', () => {});
    const { layout, tables, now } = this.#options;
    const folder = layout.app(app).attachmentsDir;
    // Its folder is not made anew: the app may be removed at any moment.
    await mkdir(folder, { mode: 0o700 }).then(() => syncDir(dirname(folder)), unlessThere(app));
    const temporary = join(folder, `.${randomUUID()}.tmp`);
    try {
      const { sha256, size } = await writeBody(temporary, body);
      const record = { sha256, size, type };
      return await this.#change(app, sha256, async () => {
        const refusal = this.#options.refusalOf(app);
        if (refusal !== null) throw refusal;
        const known = await this.get(app, sha256);
        const db = await tables.of(app);
        if (known === null) await this.#demandRoom(db, app, size);
        await rename(temporary, join(folder, sha256));
        await syncDir(folder);
        await retryIfWriterLost(() => db.batch([insertAttachment(app, record, now())]));
        return { ...record, created: known === null };
      });
    } catch (error) {
      await rm(temporary, { force: true });
      throw isMissing(error) ? unknownApp(app) : error;
    }
  }

  /** Null when there is none. */
  async get(app: string, sha256: string): Promise<AttachmentRecord | null> {
    if (!SHA256.test(sha256)) return null;
    const db = await this.#options.tables.existing(app);
    const row = db && (await retryIfWriterLost(() => db.get(GET_ATTACHMENT, [app, sha256])));
    return row && { sha256, size: Number(row.size), type: String(row.type) };
  }

  pathOf(app: string, sha256: string): string {
    return join(this.#options.layout.app(app).attachmentsDir, sha256);
  }

  /** The file to read, for its caller to close. Rejects with `UNKNOWN_BLOB`. */
  async read(app: string, sha256: string): Promise<{ record: AttachmentRecord; file: FileHandle }> {
    const record = await this.get(app, sha256);
    if (record === null) throw unknownBlob();
    try {
      return { record, file: await open(this.pathOf(app, sha256), constants.O_RDONLY | constants.O_NOFOLLOW) };
    } catch (error) {
      throw isMissing(error) ? unknownBlob() : error;
    }
  }

  /**
   * Finds the attachments of a message, for its agent. Rejects with `UNKNOWN_BLOB`, or with `BAD_REQUEST` for one that agents do not
   * take; `path` names it.
   */
  async ofMessage(app: string, named: readonly { sha256: string; name?: string }[]): Promise<TurnAttachment[]> {
    const taken: TurnAttachment[] = [];
    for (const [at, { sha256, name = sha256.slice(0, NAME_CHARS) }] of named.entries()) {
      const path = `attachments[${at}]`;
      const record = await this.get(app, sha256);
      if (record === null) throw new SvcError('UNKNOWN_BLOB', UNKNOWN, { path });
      if (!IMAGE.test(record.type) && !TEXT.test(record.type)) {
        const message = `Agents take images (PNG, JPEG, GIF, WebP) and texts, not "${record.type}".`;
        throw new SvcError('BAD_REQUEST', message, { path });
      }
      taken.push({ name, type: record.type, path: this.pathOf(app, sha256) });
    }
    return taken;
  }

  /** Rejects with `UNKNOWN_BLOB`, or with `CONFLICT` while a turn names it. */
  async remove(app: string, sha256: string): Promise<void> {
    if (await this.#remove(app, sha256, DELETE_ATTACHMENT, [app, sha256])) return;
    if ((await this.get(app, sha256)) === null) throw unknownBlob();
    throw new SvcError('CONFLICT', 'A message has this attachment; delete its conversation first.');
  }

  /** Removes what is over. */
  async sweep(): Promise<void> {
    const before = this.#options.now() - LIMITS.attachmentKeepMs;
    for (const db of await this.#options.tables.all()) await this.#sweep(db, before);
  }

  async #sweep(db: DbClient, before: number): Promise<void> {
    for (;;) {
      const due = await retryIfWriterLost(() => db.all(DUE_ATTACHMENTS, [before, LIMITS.listRowsMax]));
      for (const row of due) {
        const [app, sha256] = [String(row.app_id), String(row.sha256)];
        await this.#remove(app, sha256, DELETE_DUE_ATTACHMENT, [app, sha256, before]);
      }
      if (due.length < LIMITS.listRowsMax) return;
    }
  }

  async #demandRoom(db: DbClient, app: string, size: number): Promise<void> {
    const { attachmentsBytes: most, attachmentCountedBytes: least } = LIMITS;
    const row = await retryIfWriterLost(() => db.get(ATTACHED_BYTES, [least, app]));
    if (Number(row?.bytes) + Math.max(size, least) <= most) return;
    const message = `The app has ${most / 1024 ** 3} GiB of attachments, the maximum; delete some, or conversations that have them.`;
    throw new SvcError('CONFLICT', message);
  }

  async #logged(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.log.warn({ err: error }, 'Attachments that nothing names could not be removed.');
    }
  }

  /** The row first: what has a row has a file. Says whether there was one. */
  #remove(app: string, sha256: string, sql: string, params: (string | number)[]): Promise<boolean> {
    if (!SHA256.test(sha256)) return Promise.resolve(false);
    return this.#change(app, sha256, async () => {
      const db = await this.#options.tables.existing(app);
      if (db === null) return false;
      let lost = false;
      const { changes } = await retryIfWriterLost(
        () => db.run(sql, params),
        () => {
          lost = true;
        },
      );
      // If the writer died with the deletion, the rows may be gone already.
      const isGone = changes > 0 || (lost && (await this.get(app, sha256)) === null);
      if (isGone) await removeDurable(this.pathOf(app, sha256)).catch(unlessMissing);
      return isGone;
    });
  }

  /** One at a time for each file. */
  #change<T>(app: string, sha256: string, work: () => Promise<T>): Promise<T> {
    return this.#changing.run(app, () => this.#serial.run(`${app}/${sha256}`, work));
  }

  async #clear(app: string): Promise<void> {
    const folder = this.#options.layout.app(app).attachmentsDir;
    await sweepTemporary(folder);
    for (const name of await namesIn(folder)) {
      if (!SHA256.test(name)) continue;
      await this.#change(app, name, async () => {
        if ((await this.get(app, name)) === null) await rm(join(folder, name), { force: true });
      });
    }
  }
}

/** Durable when it resolves, under its temporary name. */
async function writeBody(path: string, body: Readable): Promise<{ sha256: string; size: number }> {
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      hash.update(chunk);
      size += chunk.length;
      await file.writeFile(chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { sha256: hash.digest('hex'), size };
}

function unknownBlob(): SvcError {
  return new SvcError('UNKNOWN_BLOB', UNKNOWN);
}

function unlessThere(app: string): (error: unknown) => void {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw isMissing(error) ? unknownApp(app) : error;
  };
}

function unlessMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}
