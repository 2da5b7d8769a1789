/** Prepares a version's static files: bridged pages, compressed copies, and the list by which they are served. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { PageOwner } from '../../protocol/bridge.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { StaticEntry } from '../../protocol/manifest.ts';
import { staticType } from '../../protocol/rules/static-files.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import { CompressedCopies } from './compressed.ts';
import type { ExtractedFile } from './extract.ts';
import { writeNewFile } from './files.ts';
import { bridgePage } from './html.ts';

/** Extensions whose content is not compressed already. */
const COMPRESSIBLE = new Set(['.html', '.htm', '.css', '.js', '.mjs', '.json', '.map', '.svg', '.ttf', '.otf', '.ico']);
const PAGES = new Set(['.html', '.htm']);

const ETAG_CHARS = 32;

/**
 * How a version is prepared: whose its pages are, whether there are compressed copies too, and the version before, whose are
 * used again where nothing changed.
 */
export type StaticOptions = { owner: PageOwner; compressed: boolean; before: VersionPaths | null };

/** Writes the copies into `staging.staticDir` and answers the list for `static.json`. */
export function prepareStatic(
  files: ExtractedFile[],
  staging: VersionPaths,
  options: StaticOptions,
): Record<string, StaticEntry> {
  // Without a prototype: a file may be called `__proto__.js`, or worse.
  const entries: Record<string, StaticEntry> = Object.create(null);
  const copies = new CompressedCopies(options.before);
  for (const file of files) {
    const type = staticType(file.path);
    if (type !== undefined) entries[file.path] = prepareFile(file, type, staging, { ...options, copies });
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
  const isKept = !compressed || file.bytes < LIMITS.compressBytes;
  if (!isPage && (isKept || !COMPRESSIBLE.has(extension))) return { type, etag: etag(file.sha256), bytes: file.bytes };

  const source = readFileSync(join(staging.code, file.path));
  const compress = (tag: string, bytes: Buffer) =>
    copies.write(staging.staticDir, { path: file.path, etag: tag, bytes });
  if (!isPage) {
    const tag = etag(file.sha256);
    return { type, etag: tag, bytes: file.bytes, ...compress(tag, source) };
  }

  const { html, scriptHashes } = bridgePage(source.toString(), owner, file.path);
  const bytes = Buffer.from(html);
  writeNewFile(join(staging.staticDir, file.path), bytes);
  const tag = etag(sha256(bytes));
  const entry: StaticEntry = {
    type,
    etag: tag,
    bytes: bytes.length,
    prepared: true,
    ...(compressed ? compress(tag, bytes) : {}),
  };
  return scriptHashes.length === 0 ? entry : { ...entry, scriptHashes };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function etag(hash: string): string {
  return `"${hash.slice(0, ETAG_CHARS)}"`;
}
