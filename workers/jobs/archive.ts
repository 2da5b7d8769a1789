/** What an uploaded archive may hold (specification, "Limits"; decisions, section 2), and its unpacking. */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { Parser, type ReadEntry } from 'tar';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { STATIC_TYPES } from '../../protocol/rules/static-files.ts';
import { makeFolder, openNew } from './files.ts';

/** What may be stored: what may be served, migrations, and text for people. */
const EXTENSIONS = new Set([...Object.keys(STATIC_TYPES), '.sql', '.md', '.txt']);

const FILE_TYPES = new Set(['File', 'OldFile']);

/** An entry as its header says: `type` in the words of the tar package, `size` in bytes. */
export type ArchiveEntry = { path: string; type: string; size: number };

/** Where an entry goes, relative with `/`; the top folder itself is the empty path. */
export type AdmittedEntry = { kind: 'file' | 'folder'; path: string };

/** What messages are about: what was sent, or a folder of an app. */
export type Subject = 'The archive' | 'The app';

/** Judges the entries of one archive in their order, each before its content is read. A folder of files is judged alike. */
export class ArchiveRules {
  readonly #subject: Subject;
  #entries = 0;
  #bytes = 0;
  /** Names of files and of all folders above them, by the name with its case folded. */
  readonly #names = new Map<string, AdmittedEntry>();

  /** `subject` is what messages are about. */
  constructor(subject: Subject = 'The archive') {
    this.#subject = subject;
  }

  /** Throws the archive's error, with the entry in `path`. */
  admit({ path, type, size }: ArchiveEntry): AdmittedEntry {
    this.#entries++;
    if (this.#entries > LIMITS.archiveEntries) {
      throw new SvcError('ARCHIVE_TOO_LARGE', `${this.#subject} has more than ${LIMITS.archiveEntries} entries.`, {
        path,
      });
    }
    const kind = FILE_TYPES.has(type) ? 'file' : type === 'Directory' ? 'folder' : null;
    if (kind === null) throw entryTypeError(path, type, this.#subject);
    const name = safeName(path);
    if (name === '' && kind === 'file') throw pathError(path, 'it has no name');
    if (kind === 'file') this.#admitFile(path, name, size);
    if (name !== '') this.#claim(path, { kind, path: name });
    return { kind, path: name };
  }

  #admitFile(path: string, name: string, size: number): void {
    const extension = /[^/](\.[^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
    if (!EXTENSIONS.has(extension)) {
      const what = extension === '' ? 'a name without an extension' : `the extension ${extension}`;
      throw new SvcError(
        'ARCHIVE_EXTENSION',
        `Apps may not hold files with ${what}. Allowed: ${[...EXTENSIONS].join(' ')}.`,
        { path },
      );
    }
    if (size > LIMITS.archiveFileBytes) {
      throw new SvcError(
        'ARCHIVE_TOO_LARGE',
        `${this.#subject} has a file of more than ${LIMITS.archiveFileBytes} bytes.`,
        { path },
      );
    }
    this.#bytes += size;
    if (this.#bytes > LIMITS.archiveTotalBytes) {
      throw new SvcError('ARCHIVE_TOO_LARGE', `${this.#subject} holds more than ${LIMITS.archiveTotalBytes} bytes.`, {
        path,
      });
    }
  }

  /** Takes the name and those of the folders above it, so that it means the same on every file system. */
  #claim(path: string, entry: AdmittedEntry): void {
    const segments = entry.path.split('/');
    for (let depth = 1; depth <= segments.length; depth++) {
      const name = segments.slice(0, depth).join('/');
      const claim: AdmittedEntry = depth === segments.length ? entry : { kind: 'folder', path: name };
      const folded = name.normalize('NFC').toLowerCase();
      const taken = this.#names.get(folded);
      if (taken === undefined) this.#names.set(folded, claim);
      else if (claim.kind === 'file')
        throw pathError(path, 'the name is there twice (upper and lower case count as the same)');
      else if (taken.kind === 'file') throw pathError(path, `"${taken.path}" is a file and cannot be a folder too`);
      else if (taken.path !== name)
        throw pathError(path, `it differs from "${taken.path}" in upper and lower case only`);
    }
  }
}

export function pathError(path: string, reason: string): SvcError {
  return new SvcError('ARCHIVE_PATH', `The name of an entry is not permitted: ${reason}.`, { path });
}

export function entryTypeError(path: string, type: string, subject: Subject = 'The archive'): SvcError {
  return new SvcError(
    'ARCHIVE_ENTRY_TYPE',
    `${subject} has an entry of type ${type}; only files and folders are taken.`,
    { path },
  );
}

/** The name without `./` and doubled slashes. Throws `ARCHIVE_PATH` when it could mean another place. */
function safeName(path: string): string {
  if (path.includes('\0')) throw pathError(path, 'it holds a NUL');
  if (path.includes('\\')) throw pathError(path, 'it holds a backslash');
  if (path.includes('\uFFFD')) throw pathError(path, 'it is not UTF-8');
  if (path.startsWith('/')) throw pathError(path, 'it is absolute');
  if (/^(?:\.\/)*[A-Za-z]:/.test(path)) throw pathError(path, 'it starts with a drive letter');
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (segments.includes('..')) throw pathError(path, 'it holds ".."');
  if (segments.some(isGitName)) throw pathError(path, 'git keeps that name for itself');
  const name = segments.join('/');
  if (Buffer.byteLength(name) > LIMITS.archiveNameBytes)
    throw pathError(path, `it is longer than ${LIMITS.archiveNameBytes} bytes`);
  return name;
}

/**
 * Names that `git fsck` and `git clone` refuse to see in a tree, as they are written on every file system: case, dots and
 * spaces at the end, streams, short names (`GIT~1`), and characters that macOS passes over.
 */
function isGitName(segment: string): boolean {
  const plain = segment.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, '');
  return /^(?:\.git|\.gitmodules|\.gitattributes)[. ]*(?::.*)?$|^gi[0-9a-z]{1,4}~\d+[. ]*$/i.test(plain);
}

/** `path` is relative with `/`. */
export type ExtractedFile = { path: string; bytes: number; sha256: string };

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);
const INFLATED_BYTES = LIMITS.archiveTotalBytes + LIMITS.archiveEntries * LIMITS.archiveOverheadBytes;
const CHUNK_BYTES = 256 * 1024;

/**
 * Unpacks `archive` into the new folder `target`; answers its files, sorted by path. Throws the archive errors of
 * decisions, section 2, and then leaves what was written so far to the caller.
 */
export async function extractArchive(archive: string, target: string): Promise<ExtractedFile[]> {
  makeFolder(target);
  const unpacking = new Unpacking(target);
  try {
    await pipeline(createReadStream(archive), createGunzip({ chunkSize: CHUNK_BYTES }), unpacking);
  } catch (error) {
    throw isZlibError(error) ? notAnArchive(`gunzip says "${error.message}"`, error) : error;
  } finally {
    unpacking.close();
  }
  return unpacking.files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Takes the inflated archive. Every entry is judged before its content is written. */
class Unpacking extends Writable {
  readonly files: ExtractedFile[] = [];
  readonly #target: string;
  readonly #rules = new ArchiveRules();
  readonly #parser = new Parser({ brotli: false, zstd: false, maxMetaEntrySize: LIMITS.archiveMetaBytes });
  #inflated = 0;
  #sawEnd = false;
  /** The file that is being written. */
  #writing: number | null = null;

  constructor(target: string) {
    super();
    this.#target = target;
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
      if (!this.#sawEnd) this.#parser.end();
      if (!this.#sawEnd) throw notAnArchive('it ends too early');
    }, done);
  }

  close(): void {
    if (this.#writing !== null) closeSync(this.#writing);
    this.#writing = null;
  }

  #take(chunk: Buffer): void {
    // The parser would inflate what is gzip again, uncounted.
    if (this.#inflated === 0 && chunk.subarray(0, 2).equals(GZIP_MAGIC)) throw notAnArchive('it is compressed twice');
    this.#inflated += chunk.length;
    if (this.#inflated > INFLATED_BYTES) {
      throw new SvcError('ARCHIVE_TOO_LARGE', `The archive inflates to more than ${INFLATED_BYTES} bytes.`);
    }
    // What follows the end is only counted: padding, as tar writes it.
    if (!this.#sawEnd) this.#parser.write(chunk);
  }

  #entry(entry: ReadEntry): void {
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

function notAnArchive(reason: string, cause?: unknown): SvcError {
  return new SvcError('INVALID_ARCHIVE', `The upload is not a whole gzipped tar archive: ${reason}.`, { cause });
}

function isZlibError(error: unknown): error is Error {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && code.startsWith('Z_');
}
