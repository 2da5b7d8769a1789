/** Stores, finds and deletes files of apps and drafts, and counts them against the quota (specification, "Files of apps"). */
import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, lstat, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { appOfKey, isDraftKey, unknownWorkspace, workspaceOfKey } from '../protocol/ids.ts';
import { LIMITS } from '../protocol/limits.ts';
import { unknownApp } from '../storage/apps/registry.ts';
import {
  type BlobPage,
  type BlobQuery,
  type BlobRecord,
  blobFolders,
  countBlobs,
  deletedMark,
  isSha256,
  listBlobs,
  openBlob,
  statBlob,
  typeFile,
  UNTYPED,
} from '../storage/blob-files.ts';
import { isMissing, isThere, syncDir } from '../storage/files/atomic-file.ts';
import type { Layout } from '../storage/layout.ts';
import { givePartBack } from './edge/upload-buffers.ts';
import { toSvcError } from './http/answers.ts';
import { SerialByKey, UnderWay } from './serial.ts';

const MiB = 1024 * 1024;
const PIECE_BYTES = 256 * 1024;

type BlobsOptions = {
  layout: Layout;
  log: Logger;
  /** `blobQuotaMb` of the app or draft; undefined when its manifest has none. */
  quotaMb(key: string): Promise<number | undefined>;
  /** In a cluster: resolves when the other nodes would find what the app keeps. A route waits for that itself. */
  share?(key: string): Promise<void>;
  /** Why the app or draft takes no calls here; null where it does, or is none. */
  refusalOf(key: string): SvcError | null;
};

/**
 * Usage of one app or draft, without the live files that a draft sees. `arriving` are bytes of uploads under way, as far as
 * they are known.
 */
type Usage = { files: number; bytes: number; arriving: number };

/** Does what a thread asks with a frame `blob`; never rejects. */
export type KeepBlob = (
  key: string,
  verb: 'put' | 'delete',
  name: string,
  content: Uint8Array,
) => Promise<{ ok: boolean; value: unknown }>;

type StoreOptions = {
  /** The length that was announced, if one was. */
  expected?: number;
  /** Called once the whole content has arrived, before it is stored; what it throws refuses it. */
  permit?(): void;
};

/** `key` is the id of a live app, or the key of a draft. */
export class Blobs {
  readonly #options: BlobsOptions;
  readonly #serial = new SerialByKey();
  /** Counted on disk with the first use since the gateway started, so that a crash leaves no wrong numbers. */
  readonly #usages = new Map<string, Promise<Usage>>();
  /** Folders that are counted. */
  readonly #counted = new Map<string, Usage>();
  readonly #underWay = new Set<Promise<unknown>>();
  /** Changes of folders, by key. */
  readonly #changing = new UnderWay();

  constructor(options: BlobsOptions) {
    this.#options = options;
  }

  /**
   * Durable when it resolves; leaves no file when it rejects, unless its folder could not be flushed. An existing file gets the new type. Rejects as `body` and
   * `permit` do, with `QUOTA_EXCEEDED`, and with `UNKNOWN_APP` or `UNKNOWN_SESSION` if that was removed meanwhile.
   */
  async store(key: string, body: Readable, type: string, options: StoreOptions = {}): Promise<BlobRecord> {
    // It may fail before it is read, and an error without a listener would end the process.
    body.on('error', () => {});
    const work = this.#store(key, body, type, options);
    this.#underWay.add(work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  /** For its caller to close. Rejects with `UNKNOWN_BLOB`. */
  async open(key: string, sha256: string): Promise<{ record: BlobRecord; file: FileHandle }> {
    const found = await openBlob(blobFolders(this.#options.layout, key), sha256);
    if (found === null) throw unknownBlob();
    return found;
  }

  /** A draft only no longer sees what is the live app's. Rejects with `UNKNOWN_BLOB`. */
  async remove(key: string, sha256: string): Promise<void> {
    if (!isSha256(sha256)) throw unknownBlob();
    const usage = await this.#usage(key);
    await this.#change(key, sha256, async () => {
      const { own, live } = blobFolders(this.#options.layout, key);
      if ((await statBlob({ own, live }, sha256)) === null) throw unknownBlob();
      const size = await sizeOf(join(own, sha256));
      if (live !== null && (await isThere(join(live, sha256)))) {
        await this.#makeFolder(key, own);
        await writeFile(deletedMark(own, sha256), '', { mode: 0o600 });
      }
      await rm(join(own, sha256), { force: true });
      if (size !== null) {
        usage.files -= 1;
        usage.bytes -= size;
      }
      await rm(typeFile(own, sha256), { force: true });
      await syncDir(own);
    });
  }

  readonly keep: KeepBlob = async (key, verb, name, content) => {
    try {
      const value = verb === 'put' ? await this.store(key, Readable.from(piecesOf(content)), name) : true;
      if (verb === 'delete') await this.remove(key, name);
      await this.#options.share?.(key);
      return { ok: true, value };
    } catch (error) {
      if (error instanceof SvcError && error.code === 'UNKNOWN_BLOB') return { ok: true, value: false };
      return { ok: false, value: toSvcError(error, this.#options.log).toBody() };
    }
  };

  /** A page of what it has stored; of a draft without what is the live app's. */
  list(key: string, query: BlobQuery): Promise<BlobPage> {
    return listBlobs(blobFolders(this.#options.layout, key).own, query);
  }

  /** Bytes that it has stored and may store. */
  async usage(key: string): Promise<{ files: number; bytes: number; quota: number }> {
    const { files, bytes } = await this.#usage(key);
    return { files, bytes, quota: await this.#quota(key) };
  }

  /** Usage of live apps whose files were used since the gateway started. */
  get known(): [app: string, usage: Readonly<Usage>][] {
    return [...this.#counted].filter(([key]) => !isDraftKey(key));
  }

  /** Removes a draft's own files; it then sees all of the live app's again. */
  async reset(key: string): Promise<void> {
    this.forget(key);
    await rm(blobFolders(this.#options.layout, key).own, { recursive: true, force: true });
  }

  /** The app or draft is gone, with its folder. */
  forget(key: string): void {
    this.#usages.delete(key);
    this.#counted.delete(key);
  }

  /** Another node goes on with it, and nothing changes its folder here any more. Uploads that arrive are refused at their end. */
  async release(key: string): Promise<void> {
    await this.#changing.settled(key);
    this.forget(key);
  }

  /** Resolves when what is under way now has ended, well or not. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#underWay]);
  }

  async #store(key: string, body: Readable, type: string, { expected = 0, permit }: StoreOptions): Promise<BlobRecord> {
    const counted = this.#usage(key);
    const [usage, quota] = await Promise.all([counted, this.#quota(key)]);
    const temporary = join(this.#options.layout.tmpDir, `blob-${randomUUID()}.tmp`);
    let reserved = 0;
    const reserve = (size: number): void => {
      if (size <= reserved) return;
      if (usage.bytes + usage.arriving + size - reserved > quota) throw quotaExceeded(key, quota, usage.bytes);
      usage.arriving += size - reserved;
      reserved = size;
    };
    try {
      reserve(expected);
      const content = await writeBody(temporary, body, reserve);
      permit?.();
      const record = { ...content, type };
      await this.#change(key, record.sha256, async () => {
        if (this.#usages.get(key) !== counted) throw this.#gone(key);
        await this.#place(key, temporary, record, usage);
      });
      return record;
    } catch (error) {
      for (const path of [temporary, stagedType(temporary)]) await rm(path, { force: true });
      throw isMissing(error) ? this.#gone(key) : error;
    } finally {
      usage.arriving -= reserved;
    }
  }

  /** One at a time for each file. */
  #change(key: string, sha256: string, work: () => Promise<void>): Promise<void> {
    return this.#changing.run(key, () => this.#serial.run(`${key}/${sha256}`, work));
  }

  /** The type first: with the content it is there. */
  async #place(key: string, temporary: string, { sha256, size, type }: BlobRecord, usage: Usage): Promise<void> {
    const { own, live } = blobFolders(this.#options.layout, key);
    const path = join(own, sha256);
    const isNew = (await sizeOf(path)) === null;
    if (isNew && usage.files >= LIMITS.blobs)
      throw new SvcError(
        'QUOTA_EXCEEDED',
        `"${appOfKey(key)}" has ${LIMITS.blobs} files, the maximum; delete some first.`,
      );
    await this.#makeFolder(key, own);
    if (type !== UNTYPED || !isNew) {
      // In a folder that the start clears, unlike the blob's.
      await writeFile(stagedType(temporary), type, { mode: 0o600, flush: true });
      await rename(stagedType(temporary), typeFile(own, sha256));
    }
    await rename(temporary, path);
    // It takes room from now on, whatever fails after this.
    if (isNew) {
      usage.files += 1;
      usage.bytes += size;
    }
    if (live !== null) await rm(deletedMark(own, sha256), { force: true });
    await syncDir(own);
  }

  /** The folder above is not made anew: the app or draft may be removed at any moment. */
  async #makeFolder(key: string, folder: string): Promise<void> {
    try {
      await mkdir(folder, { mode: 0o700 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
      throw isMissing(error) ? this.#gone(key) : error;
    }
    await syncDir(dirname(folder));
  }

  /** It was removed, or another node has it. */
  #gone(key: string): SvcError {
    const workspace = workspaceOfKey(key);
    return this.#options.refusalOf(key) ?? (workspace === undefined ? unknownApp(key) : unknownWorkspace(workspace));
  }

  #usage(key: string): Promise<Usage> {
    const known = this.#usages.get(key);
    if (known !== undefined) return known;
    const counting = countBlobs(blobFolders(this.#options.layout, key).own).then((count) => ({
      ...count,
      arriving: 0,
    }));
    this.#usages.set(key, counting);
    counting.then(
      (usage) => {
        if (this.#usages.get(key) === counting) this.#counted.set(key, usage);
      },
      () => {
        if (this.#usages.get(key) === counting) this.#usages.delete(key);
      },
    );
    return counting;
  }

  async #quota(key: string): Promise<number> {
    return ((await this.#options.quotaMb(key)) ?? LIMITS.blobQuotaMb) * MiB;
  }
}

/** Durable when it resolves. `reserve` is called with the size so far before each part is written. */
async function writeBody(
  path: string,
  body: Readable,
  reserve: (size: number) => void,
): Promise<{ sha256: string; size: number }> {
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length;
      reserve(size);
      hash.update(chunk);
      await file.writeFile(chunk);
      givePartBack(chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { sha256: hash.digest('hex'), size };
}

function stagedType(temporary: string): string {
  return `${temporary}.type`;
}

/** So that hashing one does not hold the event loop for long. */
function* piecesOf(content: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}

/** Null for a file that is not there. */
async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await lstat(path)).size;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

function unknownBlob(): SvcError {
  return new SvcError('UNKNOWN_BLOB', 'The app has no file of this sha256.');
}

function quotaExceeded(key: string, quota: number, used: number): SvcError {
  return new SvcError(
    'QUOTA_EXCEEDED',
    `The files of "${appOfKey(key)}" may have ${quota / MiB} MiB together and have ${(used / MiB).toFixed(1)}. ` +
      'Delete some, or raise "blobQuotaMb" in app.json.',
  );
}
