/** Unpacks an uploaded archive by the rules for archives (specification, "Archives"). */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, openSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { Parser, type ReadEntry } from 'tar';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { ArchiveRules, entryTypeError, isOriginNote, pathError } from '../../../protocol/rules/archive-rules.ts';
import { isLeftOut } from '../../../protocol/rules/left-out.ts';
import { type ExtractedFile, notAnArchive } from './extracted.ts';
import { makeFolder, openNew } from './files.ts';

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);
const ZIP_MAGIC = Buffer.from('PK\x03\x04');
const INFLATED_BYTES = LIMITS.archiveTotalBytes + LIMITS.archiveEntries * LIMITS.archiveOverheadBytes;
const CHUNK_BYTES = 256 * 1024;
/** Of a character, at most. */
const UTF8_BYTES = 4;

/** `leaveOut`: what `svc push` would not send is not taken, and refuses nothing. */
export type ExtractOptions = { leaveOut?: boolean };

/**
 * Unpacks `archive`, a gzipped tar archive or a zip archive, into the new folder `target`; answers its files, sorted by path. Throws
 * the errors of archives (specification, "Archives"), and then leaves the files written so far for the caller to remove.
 */
export async function extractArchive(
  archive: string,
  target: string,
  { leaveOut = false }: ExtractOptions = {},
): Promise<ExtractedFile[]> {
  makeFolder(target);
  if (isZip(archive)) return await (await import('./zip.ts')).extractZip(archive, target, leaveOut);
  const unpacking = new Unpacking(target, leaveOut);
  try {
    await pipeline(createReadStream(archive), createGunzip({ chunkSize: CHUNK_BYTES }), unpacking);
  } catch (error) {
    throw isZlibError(error) ? notAnArchive(`gunzip says "${error.message}"`, error) : error;
  } finally {
    unpacking.close();
  }
  return unpacking.files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Takes the inflated archive. Every entry is checked before its content is written. */
export class Unpacking extends Writable {
  readonly files: ExtractedFile[] = [];
  readonly #target: string;
  readonly #leaveOut: boolean;
  readonly #rules = new ArchiveRules();
  readonly #parser = new Parser({ brotli: false, zstd: false, maxMetaEntrySize: LIMITS.archiveMetaBytes });
  #inflated = 0;
  /** The beginning of a character whose end has not come yet. */
  #held: Buffer = Buffer.alloc(0);
  #sawEnd = false;
  /** The file that is being written. */
  #writing: number | null = null;

  constructor(target: string, leaveOut: boolean) {
    super();
    this.#target = target;
    this.#leaveOut = leaveOut;
    this.#parser.on('entry', (entry: ReadEntry) => this.#entry(entry));
    this.#parser.on('ignoredEntry', (entry: ReadEntry) => this.#refuseIgnored(entry));
    this.#parser.on('meta', (text: string) => checkMeta(text));
    this.#parser.on('warn', (_code: string, message: string, data: { header?: TarHeader }) =>
      refuseWarned(message, data.header),
    );
    this.#parser.on('eof', () => {
      this.#sawEnd = true;
    });
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    attempt(() => this.#take(chunk), done);
  }

  override _final(done: (error?: Error) => void): void {
    attempt(() => {
      if (!this.#sawEnd) this.#parser.end(this.#held);
      if (!this.#sawEnd) throw notAnArchive('it ends too early');
    }, done);
  }

  close(): void {
    if (this.#writing !== null) closeSync(this.#writing);
    this.#writing = null;
  }

  #take(chunk: Buffer): void {
    // The parser would inflate gzip inside gzip, uncounted.
    if (this.#inflated === 0 && chunk.subarray(0, 2).equals(GZIP_MAGIC)) throw notAnArchive('it is compressed twice');
    this.#inflated += chunk.length;
    if (this.#inflated > INFLATED_BYTES) {
      throw new SvcError('ARCHIVE_TOO_LARGE', `The archive inflates to more than ${INFLATED_BYTES} bytes.`);
    }
    // Bytes after the end are only counted: padding, as tar writes it.
    if (!this.#sawEnd) this.#feed(chunk);
  }

  /** The parser decodes each part of a long name by itself, so none may end within a character. */
  #feed(chunk: Buffer): void {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const end = bytes.length - unfinishedBytes(bytes);
    this.#held = bytes.subarray(end);
    this.#parser.write(bytes.subarray(0, end));
  }

  #entry(entry: ReadEntry): void {
    if (isOriginNote(entry.path)) {
      entry.resume();
      return;
    }
    if (this.#leaveOut && entry.type !== 'Directory' && isLeftOut(entry.path)) {
      this.#rules.pass(entry.path);
      entry.resume();
      return;
    }
    const { kind, path } = this.#rules.admit({ path: entry.path, type: entry.header.type, size: entry.size });
    if (kind === 'folder') {
      makeFolder(join(this.#target, path));
      entry.resume();
      return;
    }
    const file = openNew(join(this.#target, path));
    this.#writing = file;
    const hash = createHash('sha256');
    let bytes = 0;
    entry.on('data', (chunk: Buffer) => {
      hash.update(chunk);
      writeFileSync(file, chunk);
      bytes += chunk.length;
    });
    entry.on('end', () => {
      if (bytes !== entry.size) throw notAnArchive('it ends too early');
      this.close();
      this.files.push({ path, bytes, sha256: hash.digest('hex') });
    });
  }

  #refuseIgnored(entry: ReadEntry): void {
    if (entry.meta) throw pathError(entry.path, `its metadata is larger than ${LIMITS.archiveMetaBytes} bytes`);
    throw entryTypeError(entry.path, entry.type);
  }
}

/** At the end of the bytes: those of a UTF-8 character that has more of them. */
function unfinishedBytes(bytes: Buffer): number {
  const tail = [...bytes.subarray(-UTF8_BYTES)];
  const fromEnd = tail.reverse().findIndex((byte) => (byte & 0xc0) !== 0x80) + 1;
  const first = tail[fromEnd - 1] ?? 0;
  const whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return fromEnd < whole ? fromEnd : 0;
}

function isZip(archive: string): boolean {
  const fd = openSync(archive, 'r');
  try {
    const magic = Buffer.alloc(ZIP_MAGIC.length);
    readSync(fd, magic);
    return magic.equals(ZIP_MAGIC);
  } finally {
    closeSync(fd);
  }
}

function attempt(work: () => void, done: (error?: Error) => void): void {
  try {
    work();
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

type TarHeader = { path?: string; type?: string };

/** Long names come as text before their entry; the parser would cut one at a NUL and take the rest of it for valid. */
function checkMeta(text: string): void {
  const nul = text.replace(/\0+$/, '').indexOf('\0');
  if (nul >= 0) throw pathError(text.slice(0, nul).replace(/^\d+ path=/, ''), 'it holds a NUL');
}

function refuseWarned(message: string, header: TarHeader | undefined): never {
  const isLink = header?.type === 'Link' || header?.type === 'SymbolicLink';
  if (isLink) throw entryTypeError(header.path ?? '', header.type ?? '');
  throw notAnArchive(message);
}

function isZlibError(error: unknown): error is Error {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && code.startsWith('Z_');
}
