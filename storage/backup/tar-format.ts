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

/** Takes the content of one file. */
export type EntrySink = { write(chunk: Buffer): void; end(): void };

/** Reads an archive to its end. Throws `INVALID_BACKUP` for anything that `fileHeader` and the others would not write. */
export async function readFiles(
  source: AsyncIterable<Buffer>,
  open: (path: string, size: number) => EntrySink,
): Promise<void> {
  const bytes = new ByteReader(source);
  for (let extended: Pax | undefined; ; ) {
    const block = await bytes.take(BLOCK_BYTES);
    if (isZero(block)) break;
    const header = new Header(block);
    const path = extended?.path ?? header.path ?? '';
    const size = extended?.size ?? header.size ?? -1;
    const { type } = header;
    if (!header.cksumValid) throw invalidBackup('a header in it is damaged');
    if (type === 'ExtendedHeader' && extended === undefined) {
      if (size < 0 || size > LIMITS.archiveMetaBytes) throw invalidBackup('a header in it is too large', path);
      extended = Pax.parse((await bytes.take(size)).toString());
      await takePadding(bytes, size);
      continue;
    }
    extended = undefined;
    if (type !== 'File') throw invalidBackup(`it holds an entry of type ${type}; only files are taken`, path);
    if (!Number.isSafeInteger(size) || size < 0) throw invalidBackup('a header in it is damaged', path);
    const sink = open(path, size);
    await bytes.pass(size, (chunk) => sink.write(chunk));
    sink.end();
    await takePadding(bytes, size);
  }
  if (!isZero(await bytes.take(BLOCK_BYTES)) || !(await bytes.atEnd()))
    throw invalidBackup('something follows its end');
}

async function takePadding(bytes: ByteReader, size: number): Promise<void> {
  if (!isZero(await bytes.take(paddingBytes(size)))) throw invalidBackup('the filling between its files is damaged');
}

function paddingBytes(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function isZero(bytes: Buffer): boolean {
  return bytes.equals(END_OF_ARCHIVE.subarray(0, bytes.length));
}

/** Reads a stream in pieces of given lengths, holding one chunk of it at a time. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #chunk: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Exactly this many bytes, few enough for memory. */
  async take(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    await this.pass(count, (part) => parts.push(part));
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  /** Exactly this many bytes, in chunks as they arrive. */
  async pass(count: number, onPart: (part: Buffer) => void): Promise<void> {
    for (let left = count; left > 0; ) {
      if (this.#chunk.length === 0 && !(await this.#next())) throw invalidBackup('it ends too early');
      const part = this.#chunk.subarray(0, left);
      this.#chunk = this.#chunk.subarray(part.length);
      left -= part.length;
      onPart(part);
    }
  }

  async atEnd(): Promise<boolean> {
    return this.#chunk.length === 0 && !(await this.#next());
  }

  async #next(): Promise<boolean> {
    do {
      const { done, value } = await this.#chunks.next();
      if (done) return false;
      this.#chunk = value;
    } while (this.#chunk.length === 0);
    return true;
  }
}
