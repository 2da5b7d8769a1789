/** The compressed copies of static files: those of the version before, where a file is as it was, and new ones. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import type { StaticEntry } from '../../protocol/manifest.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import { writeNewFile } from './files.ts';

/** The best that takes little time: higher ones cost 15 times as much a file and save 2 % more. */
const BROTLI_QUALITY = 7;

/** Sizes of the copies that there are. */
export type CompressedSizes = Pick<StaticEntry, 'br' | 'gzip'>;

const FORMATS = [
  { size: 'br', suffix: '.br', decompress: brotliDecompressSync, compress: compressBrotli },
  { size: 'gzip', suffix: '.gz', decompress: gunzipSync, compress: (bytes: Buffer) => gzipSync(bytes) },
] as const;

export class CompressedCopies {
  readonly #before: VersionPaths | null;
  #entries: Record<string, StaticEntry> | undefined;

  /** `before` is a prepared version of the app; null when there is none. */
  constructor(before: VersionPaths | null) {
    this.#before = before;
  }

  /** Writes the copies that are smaller than the file itself, below `dir`. `etag` tells its bytes from others. */
  write(dir: string, file: { path: string; etag: string; bytes: Buffer }): CompressedSizes {
    const sizes: CompressedSizes = {};
    if (file.bytes.length < LIMITS.compressBytes) return sizes;
    for (const { size, suffix, decompress, compress } of FORMATS) {
      const copy = this.#earlier(file, size, suffix, decompress) ?? compress(file.bytes);
      if (copy.length >= file.bytes.length) continue;
      writeNewFile(join(dir, file.path + suffix), copy);
      sizes[size] = copy.length;
    }
    return sizes;
  }

  /** Decompressing takes a tenth of the time, and what was damaged on disk is not carried on. */
  #earlier(
    { path, etag, bytes }: { path: string; etag: string; bytes: Buffer },
    size: keyof CompressedSizes,
    suffix: string,
    decompress: (copy: Buffer, options: { maxOutputLength: number }) => Buffer,
  ): Buffer | null {
    if (this.#before === null) return null;
    try {
      this.#entries ??= JSON.parse(readFileSync(this.#before.static, 'utf8')) as Record<string, StaticEntry>;
      if (!Object.hasOwn(this.#entries, path)) return null;
      const entry = this.#entries[path];
      if (entry?.etag !== etag || entry[size] === undefined) return null;
      const copy = readFileSync(join(this.#before.staticDir, path + suffix));
      return decompress(copy, { maxOutputLength: bytes.length }).equals(bytes) ? copy : null;
    } catch {
      // Whatever is wrong with it, the file is compressed anew.
      return null;
    }
  }
}

function compressBrotli(bytes: Buffer): Buffer {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return brotliCompressSync(bytes, { params });
}
