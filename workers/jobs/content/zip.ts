/** Unpacks a zip archive by the rules for archives: what lists its entries is at its end, so all are known before one is read. */
import { createHash } from 'node:crypto';
import { closeSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Entry, getFileNameLowLevel, openPromise, type ZipFile } from 'yauzl';
import { SvcError } from '../../../protocol/errors.ts';
import { ArchiveRules, isOriginNote } from '../../../protocol/rules/archive-rules.ts';
import { isLeftOut } from '../../../protocol/rules/left-out.ts';
import { type ExtractedFile, notAnArchive } from './extracted.ts';
import { makeFolder, openNew } from './files.ts';

/** The system that made an entry, and the bits of its mode that say what it is (APPNOTE 4.4.2, `stat.h`). */
const UNIX = 3;
const TYPE_BITS = 0o170000;
const LINK = 0o120000;
const PLAIN: ReadonlySet<number> = new Set([0, 0o040000, 0o100000]);
/** What macOS puts beside the files. */
const COMPANIONS = '__MACOSX/';

/** As `extractArchive`. */
export async function extractZip(archive: string, target: string, leaveOut: boolean): Promise<ExtractedFile[]> {
  try {
    return (await unpack(archive, target, leaveOut)).sort((a, b) => (a.path < b.path ? -1 : 1));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // What the library cannot read is no archive; a full disk and the like are no fault of it.
    if (error instanceof SvcError || (code !== undefined && !code.startsWith('Z_'))) throw error;
    throw notAnArchive((error as Error).message, error);
  }
}

async function unpack(archive: string, target: string, leaveOut: boolean): Promise<ExtractedFile[]> {
  const files: ExtractedFile[] = [];
  const rules = new ArchiveRules();
  // Names are decoded below, so that the rules refuse them and not the library.
  const zip = await openPromise(archive, { decodeStrings: false, autoClose: false });
  try {
    for await (const entry of zip.eachEntry()) {
      const name = nameOf(entry);
      if (isOriginNote(name)) continue;
      if (leaveOut && (name.startsWith(COMPANIONS) || (!name.endsWith('/') && isLeftOut(name)))) {
        rules.pass(name);
        continue;
      }
      const { kind, path } = rules.admit({ path: name, type: typeOf(entry, name), size: entry.uncompressedSize });
      if (kind === 'folder') makeFolder(join(target, path));
      else files.push(await write(zip, entry, target, path));
    }
  } finally {
    zip.close();
  }
  return files;
}

/** The library ends with an error where an entry has more or fewer bytes than it says. */
async function write(zip: ZipFile, entry: Entry, target: string, path: string): Promise<ExtractedFile> {
  if (entry.isEncrypted()) throw notAnArchive(`${path} has a password`);
  const content = await zip.openReadStreamPromise(entry);
  const file = openNew(join(target, path));
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) {
      hash.update(chunk);
      writeFileSync(file, chunk);
      bytes += chunk.length;
    }
  } finally {
    closeSync(file);
  }
  return { path, bytes, sha256: hash.digest('hex') };
}

function nameOf({ generalPurposeBitFlag, fileNameRaw, extraFields }: Entry): string {
  return getFileNameLowLevel(generalPurposeBitFlag, fileNameRaw, extraFields, true);
}

/** In the words of the tar package. */
function typeOf({ versionMadeBy, externalFileAttributes }: Entry, name: string): string {
  const mode = versionMadeBy >> 8 === UNIX ? (externalFileAttributes >>> 16) & TYPE_BITS : 0;
  if (mode === LINK) return 'SymbolicLink';
  if (!PLAIN.has(mode)) return 'special';
  return name.endsWith('/') ? 'Directory' : 'File';
}
