/** Reads and writes tar as far as backups use it: files only, long names in pax headers. Treats what it reads as hostile. */
import { Header, Pax } from 'tar';
import { LIMITS } from '../../protocol/limits.ts';
import { invalidBackup } from './format.ts';

const BLOCK_BYTES = 512;
const FILE_MODE = 0o600;

/** What stands at the end of every archive. */
export const END_OF_ARCHIVE: Buffer = Buffer.alloc(2 * BLOCK_BYTES);

/** What stands before the content of a file. `modifiedAt` in milliseconds since the epoch. */
export function fileHeader(path: string, size: number, modifiedAt: number): Buffer {
  const mtime = new Date(Math.floor(modifiedAt / 1000) * 1000);
  const header = new Header({ path, size, mtime, mode: FILE_MODE, type: 'File' });
  if (!header.encode()) return header.block as Buffer;
  // A part of the name in this header's own prefix field would be read as one more folder.
  const plain = new Header({ path: 'long-name', size, mtime, mode: FILE_MODE, type: 'File' });
  plain.encode();
  return Buffer.concat([new Pax({ path, size, mtime }).encode(), plain.block as Buffer]);
}

/** What stands behind it. */
export function padding(size: number): Buffer {
  return Buffer.alloc(paddingBytes(size));
}

/** A file in an archive. `content`, of `size` bytes, must be read to its end before the next file is asked for. */
export type ArchivedFile = { path: string; size: number; content: AsyncIterable<Buffer> };

/** The files of an archive, which is read to its end. Throws `INVALID_BACKUP` for anything that `fileHeader` and the others would not write. */
export async function* archivedFiles(source: AsyncIterable<Buffer>): AsyncGenerator<ArchivedFile> {
  const bytes = new ByteReader(source);
  for (let extended: Pax | undefined; ; ) {
    const block = await bytes.take(BLOCK_BYTES);
    if (isZero(block)) break;
    const header = readHeader(block);
    const path = extended?.path ?? header.path ?? '';
    const size = extended?.size ?? header.size ?? -1;
    const { type } = header;
    if (!header.cksumValid) throw invalidBackup('a header in it is damaged');
    if (type === 'ExtendedHeader' && extended === undefined) {
      if (size < 0 || size > LIMITS.archiveMetaBytes) throw invalidBackup('a header in it is too large', path);
      extended = Pax.parse((await bytes.take(size)).toString());
    } else {
      extended = undefined;
      if (type !== 'File') throw invalidBackup(`it holds an entry of type ${type}; only files are taken`, path);
      if (!Number.isSafeInteger(size) || size < 0) throw invalidBackup('a header in it is damaged', path);
      yield { path, size, content: bytes.pass(size) };
    }
    if (!isZero(await bytes.take(paddingBytes(size)))) throw invalidBackup('the filling between its files is damaged');
  }
  if (!isZero(await bytes.take(BLOCK_BYTES)) || !(await bytes.atEnd()))
    throw invalidBackup('something follows its end');
}

function readHeader(block: Buffer): Header {
  try {
    return new Header(block);
  } catch (error) {
    // A number that no tar has; the checksum is not looked at before it.
    throw invalidBackup('a header in it is damaged', undefined, error);
  }
}

function paddingBytes(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function isZero(bytes: Buffer): boolean {
  return bytes.equals(END_OF_ARCHIVE.subarray(0, bytes.length));
}

/** The whole of a content that is small enough for memory. */
export async function joined(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of chunks) parts.push(part);
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
}

/** Reads a stream in pieces of given lengths, holding one chunk of it at a time. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #chunk: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Exactly this many bytes, few enough for memory. */
  take(count: number): Promise<Buffer> {
    return joined(this.pass(count));
  }

  /** Exactly this many bytes, in chunks as they arrive. */
  async *pass(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (await this.atEnd()) throw invalidBackup('it ends too early');
      const part = this.#chunk.subarray(0, left);
      this.#chunk = this.#chunk.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }

  async atEnd(): Promise<boolean> {
    while (this.#chunk.length === 0) {
      const { done, value } = await this.#chunks.next();
      if (done) return true;
      this.#chunk = value;
    }
    return false;
  }
}
