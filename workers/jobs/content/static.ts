/** Prepares a version's static files: bridged pages, compressed copies, and the list by which they are served. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';
import type { BridgeOwner } from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { StaticEntry } from '../../../protocol/manifest.ts';
import { staticType } from '../../../protocol/rules/static-files.ts';
import type { VersionPaths } from '../../../storage/layout.ts';
import type { Icons } from './drawn-icons.ts';
import type { ExtractedFile } from './extracted.ts';
import { writeNewFile } from './files.ts';
import { bridgePage } from './html.ts';
import type { BuiltPage } from './page-bundle.ts';

/** Extensions whose content is not compressed already. */
const COMPRESSIBLE = new Set(['.html', '.htm', '.css', '.js', '.mjs', '.json', '.map', '.svg', '.ttf', '.otf', '.ico']);
const PAGES = new Set(['.html', '.htm']);

const ETAG_CHARS = 32;

/**
 * How to prepare a version: the owner of its pages, whether to make compressed copies, the previous version, whose copies
 * are reused for unchanged files, the icons that were drawn, and what its page was built into.
 */
export type StaticOptions = {
  owner: BridgeOwner;
  compressed: boolean;
  before: VersionPaths | null;
  icons: Icons;
  built: BuiltPage;
};

/** Writes the copies into `staging.staticDir` and answers the list for `static.json`. */
export function prepareStatic(
  files: ExtractedFile[],
  staging: VersionPaths,
  options: StaticOptions,
): Record<string, StaticEntry> {
  // Without a prototype: a file may be called `__proto__.js`, or worse.
  const entries: Record<string, StaticEntry> = Object.create(null);
  const copies = new CompressedCopies(options.before);
  const built = options.built.files;
  for (const file of files) {
    const type = staticType(file.path);
    if (type !== undefined && !built.has(file.path))
      entries[file.path] = prepareFile(file, type, staging, { ...options, copies });
  }
  for (const [path, bytes] of built) {
    const own = { type: staticType(path) as string, etag: etag(hashOf(bytes)), bytes: bytes.length, prepared: true };
    writeNewFile(join(staging.staticDir, path), bytes);
    entries[path] = {
      ...own,
      ...(options.compressed ? copies.write(staging.staticDir, { path, etag: own.etag, bytes }) : {}),
    };
  }
  const isTaken = (name: string) => files.some(({ path }) => `${path.toLowerCase()}/`.startsWith(`${name}/`));
  for (const [name, png] of options.icons.files) {
    if (isTaken(name)) continue;
    writeNewFile(join(staging.staticDir, name), png);
    entries[name] = { type: 'image/png', etag: etag(hashOf(png)), bytes: png.length, prepared: true };
  }
  return entries;
}

function prepareFile(
  file: ExtractedFile,
  type: string,
  staging: VersionPaths,
  { owner, compressed, copies }: StaticOptions & { copies: CompressedCopies },
): StaticEntry {
  const extension = extname(file.path).toLowerCase();
  const isPage = PAGES.has(extension);
  const isCompressed = compressed && COMPRESSIBLE.has(extension);
  const own = { type, etag: etag(file.sha256), bytes: file.bytes };
  if (!isPage && (!isCompressed || file.bytes < LIMITS.compressBytes)) return own;

  const source = readFileSync(join(staging.code, file.path));
  const compress = (tag: string, bytes: Buffer): CompressedSizes =>
    isCompressed ? copies.write(staging.staticDir, { path: file.path, etag: tag, bytes }) : {};
  if (!isPage) return { ...own, ...compress(own.etag, source) };

  const { html, scriptHashes } = bridgePage(source.toString(), owner, file.path);
  const bytes = Buffer.from(html);
  writeNewFile(join(staging.staticDir, file.path), bytes);
  const tag = etag(hashOf(bytes));
  const entry: StaticEntry = { type, etag: tag, bytes: bytes.length, prepared: true, ...compress(tag, bytes) };
  return scriptHashes.length === 0 ? entry : { ...entry, scriptHashes };
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function etag(hash: string): string {
  return `"${hash.slice(0, ETAG_CHARS)}"`;
}

/** The best fast level: higher ones take 15 times as long per file and save 2 % more. */
const BROTLI_QUALITY = 7;

/** Of a name in a folder, on most file systems. */
const FILE_NAME_BYTES = 255;

/** Sizes of the copies that there are. */
export type CompressedSizes = Pick<StaticEntry, 'br' | 'gzip'>;

const FORMATS = [
  { size: 'br', suffix: '.br', decompress: brotliDecompressSync, compress: compressBrotli },
  { size: 'gzip', suffix: '.gz', decompress: gunzipSync, compress: (bytes: Buffer) => gzipSync(bytes) },
] as const;

type Compressible = { path: string; etag: string; bytes: Buffer };

/** The compressed copies of static files: reused from the previous version for unchanged files, or new. */
export class CompressedCopies {
  readonly #before: VersionPaths | null;
  #entries: Record<string, StaticEntry> | undefined;

  /** `before` is a prepared version of the app; null when there is none. */
  constructor(before: VersionPaths | null) {
    this.#before = before;
  }

  /** Writes the copies that are smaller than the file itself and can have a name, below `dir`. `etag` identifies its bytes. */
  write(dir: string, file: Compressible): CompressedSizes {
    const sizes: CompressedSizes = {};
    if (file.bytes.length < LIMITS.compressBytes) return sizes;
    for (const format of FORMATS) {
      if (Buffer.byteLength(basename(file.path) + format.suffix) > FILE_NAME_BYTES) continue;
      const copy = this.#earlier(file, format) ?? format.compress(file.bytes);
      if (copy.length >= file.bytes.length) continue;
      writeNewFile(join(dir, file.path + format.suffix), copy);
      sizes[format.size] = copy.length;
    }
    return sizes;
  }

  /** Decompressing takes a tenth of the time, and keeps damaged copies from spreading. */
  #earlier({ path, etag, bytes }: Compressible, { size, suffix, decompress }: (typeof FORMATS)[number]): Buffer | null {
    if (this.#before === null) return null;
    try {
      this.#entries ??= JSON.parse(readFileSync(this.#before.static, 'utf8')) as Record<string, StaticEntry>;
      const entry = Object.hasOwn(this.#entries, path) ? this.#entries[path] : undefined;
      if (entry?.etag !== etag || entry[size] === undefined) return null;
      const copy = readFileSync(join(this.#before.staticDir, path + suffix));
      return decompress(copy, { maxOutputLength: bytes.length }).equals(bytes) ? copy : null;
    } catch {
      // After any error the file is compressed again.
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
