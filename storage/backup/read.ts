/** Reads a backup from its first byte to its last, verifying it, and puts its files into a folder if there is one. */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, mkdirSync, openSync, statSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import {
  BACKUP_MANIFEST,
  type BackupFile,
  type BackupManifest,
  BackupSize,
  backupPathKind,
  checkAgainstManifest,
  invalidBackup,
  parseBackupManifest,
} from '../../protocol/backup.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type EntrySink, readFiles } from './tar-format.ts';

const CHUNK_BYTES = 256 * 1024;
const FOLLOWED = 'something follows its end';

/**
 * The manifest, with which every file agrees. Throws `INVALID_BACKUP` for anything else, `BACKUP_TOO_LARGE`, Node's error
 * when `target`, an empty folder, cannot be written (`ENOSPC`, …), and the signal's reason. What was written by then stays.
 */
export async function readBackup(file: string, target: string | null, signal?: AbortSignal): Promise<BackupManifest> {
  const { size } = statSync(file);
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const reading = new Reading(target);
  try {
    await pipeline(
      createReadStream(file, { highWaterMark: CHUNK_BYTES }),
      gunzip,
      (bytes: AsyncIterable<Buffer>) => readFiles(bytes, (path, bytes) => reading.open(path, bytes)),
      ...(signal === undefined ? [] : [{ signal }]),
    );
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    // The pipeline's word for a reader that was done before the file was.
    if ((error as { code?: string }).code === 'ABORT_ERR') throw invalidBackup(FOLLOWED, undefined, error);
    throw isZlibError(error) ? invalidBackup(`gunzip says "${error.message}"`, undefined, error) : error;
  } finally {
    reading.close();
  }
  // Zeros behind the end, which gunzip takes for filling.
  if (gunzip.bytesWritten !== size) throw invalidBackup(FOLLOWED);
  return reading.verified();
}

class Reading {
  readonly #target: string | null;
  readonly #found = new Map<string, BackupFile>();
  readonly #size = new BackupSize();
  #manifest: Buffer[] | null = null;
  #writing: number | null = null;

  constructor(target: string | null) {
    this.#target = target;
  }

  open(path: string, bytes: number): EntrySink {
    if (this.#manifest !== null) throw invalidBackup('something follows its manifest', path);
    if (backupPathKind(path) === 'manifest') return this.#openManifest(bytes);
    // Another spelling of a name that the file system takes for the same is refused by it below.
    if (this.#found.has(path)) throw invalidBackup('it holds a file twice', path);
    this.#size.add(1, bytes);
    const hash = createHash('sha256');
    const fd = this.#create(path);
    return {
      write: (chunk) => {
        hash.update(chunk);
        if (fd !== null) for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
      },
      end: () => {
        this.close();
        this.#found.set(path, { path, bytes, sha256: hash.digest('hex') });
      },
    };
  }

  close(): void {
    if (this.#writing !== null) closeSync(this.#writing);
    this.#writing = null;
  }

  verified(): BackupManifest {
    if (this.#manifest === null) throw invalidBackup('it has no manifest', BACKUP_MANIFEST);
    const manifest = parseBackupManifest(Buffer.concat(this.#manifest).toString());
    checkAgainstManifest(manifest, this.#found);
    return manifest;
  }

  #openManifest(bytes: number): EntrySink {
    if (bytes > LIMITS.backupManifestBytes) throw invalidBackup('its manifest is too large', BACKUP_MANIFEST);
    const parts: Buffer[] = [];
    this.#manifest = parts;
    return { write: (chunk) => parts.push(Buffer.from(chunk)), end: () => {} };
  }

  #create(path: string): number | null {
    if (this.#target === null) return null;
    const file = join(this.#target, path);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    try {
      this.#writing = openSync(file, 'wx', 0o600);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') throw invalidBackup('it holds a file twice', path, error);
      throw error;
    }
    return this.#writing;
  }
}

function isZlibError(error: unknown): error is Error {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && code.startsWith('Z_');
}
