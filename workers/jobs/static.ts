/** Prepares a version's static files: bridged pages, compressed copies, and the list by which they are served. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import type { StaticEntry } from '../../protocol/manifest.ts';
import { staticType } from '../../protocol/static-files.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import type { ExtractedFile } from './extract.ts';
import { writeNewFile } from './files.ts';
import { bridgePage } from './html.ts';

/** Extensions whose content is not compressed already. */
const COMPRESSIBLE = new Set(['.html', '.htm', '.css', '.js', '.mjs', '.json', '.map', '.svg', '.ttf', '.otf', '.ico']);
const PAGES = new Set(['.html', '.htm']);

/** The best that takes little time: higher ones cost 15 times as much a file and save 2 % more. */
const BROTLI_QUALITY = 7;

const ETAG_CHARS = 32;

/** Writes the copies into `staging.staticDir` and answers the list for `static.json`. */
export function prepareStatic(app: string, files: ExtractedFile[], staging: VersionPaths): Record<string, StaticEntry> {
  // Without a prototype: a file may be called `__proto__.js`, or worse.
  const entries: Record<string, StaticEntry> = Object.create(null);
  for (const file of files) {
    const type = staticType(file.path);
    if (type !== undefined) entries[file.path] = prepareFile(app, file, type, staging);
  }
  return entries;
}

function prepareFile(app: string, file: ExtractedFile, type: string, staging: VersionPaths): StaticEntry {
  const extension = extname(file.path).toLowerCase();
  const isPage = PAGES.has(extension);
  const isSmall = file.bytes < LIMITS.compressBytes;
  if (!isPage && (isSmall || !COMPRESSIBLE.has(extension))) return { type, etag: etag(file.sha256), bytes: file.bytes };

  const source = readFileSync(join(staging.code, file.path));
  const copy = join(staging.staticDir, file.path);
  if (!isPage) return { type, etag: etag(file.sha256), bytes: file.bytes, ...compress(source, copy) };

  const { html, scriptHashes } = bridgePage(source.toString(), app);
  const bytes = Buffer.from(html);
  writeNewFile(copy, bytes);
  const entry: StaticEntry = {
    type,
    etag: etag(sha256(bytes)),
    bytes: bytes.length,
    prepared: true,
    ...compress(bytes, copy),
  };
  return scriptHashes.length === 0 ? entry : { ...entry, scriptHashes };
}

/** Writes the copies that are smaller than the file itself. */
function compress(bytes: Buffer, path: string): { br?: number; gzip?: number } {
  if (bytes.length < LIMITS.compressBytes) return {};
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  const br = writeSmaller(brotliCompressSync(bytes, { params }), bytes, `${path}.br`);
  const gzip = writeSmaller(gzipSync(bytes), bytes, `${path}.gz`);
  return { ...(br === null ? {} : { br }), ...(gzip === null ? {} : { gzip }) };
}

function writeSmaller(compressed: Buffer, original: Buffer, path: string): number | null {
  if (compressed.length >= original.length) return null;
  writeNewFile(path, compressed);
  return compressed.length;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function etag(hash: string): string {
  return `"${hash.slice(0, ETAG_CHARS)}"`;
}
