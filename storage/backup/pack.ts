/** Packs a backup part by part, each a gzip member appended to the archive; the manifest comes last. */
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  createWriteStream,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { BackupHead, BackupSource, PackJob, PackResult } from '../../protocol/wire/jobs.ts';
import { isMissing } from '../files/atomic-file.ts';
import { listTreeSync, pathOf } from '../files/list-tree.ts';
import { copyDatabase, inspectDatabase } from './backup-database.ts';
import { BACKUP_MANIFEST, type BackupDatabase, type BackupFile, backupPathKind } from './format.ts';
import { END_OF_ARCHIVE, fileHeader, padding } from './tar-format.ts';

const CHUNK_BYTES = 256 * 1024;
/** How often a folder is listed to find new files. */
const LOOKS = 10;
/** The fastest level: a backup should slow running apps little. */
const COMPRESSION = 1;

/** The files of a backup in the making, in a folder that is removed when it is done with. */
export class BackupWorkspace {
  readonly archive: string;
  /** The manifest's two lists, each item behind a comma. */
  readonly files: string;
  readonly databases: string;
  readonly databaseCopy: string;

  constructor(folder: string) {
    this.archive = join(folder, 'archive.tar.gz');
    this.files = join(folder, 'files.txt');
    this.databases = join(folder, 'databases.txt');
    this.databaseCopy = join(folder, 'copy.sqlite');
  }
}

/** Does one part of the work. `check` is called between chunks; what it throws ends the work, and the archive is then useless. */
export async function packPart(
  workspace: BackupWorkspace,
  work: PackJob['work'],
  check: () => void,
): Promise<PackResult> {
  if ('sources' in work) return packSources(workspace, work.sources, check);
  return { files: 1, bytes: await packManifest(workspace, work.finish) };
}

async function packSources(
  workspace: BackupWorkspace,
  sources: BackupSource[],
  check: () => void,
): Promise<PackResult> {
  const files: BackupFile[] = [];
  const databases: BackupDatabase[] = [];
  await append(workspace, async function* () {
    for (const source of sources) {
      check();
      if (source.kind === 'text') yield* pack(files, source.path, textContent(source.text), check);
      else if (source.kind === 'files') yield* packFiles(files, source.path, source.from, check);
      else if (existsSync(source.from)) {
        rmSync(workspace.databaseCopy, { force: true });
        await copyDatabase(source.from, workspace.databaseCopy, check);
        databases.push({ path: source.path, ...inspectDatabase(workspace.databaseCopy) });
        check();
        yield* packFile(files, source.path, workspace.databaseCopy, check);
        rmSync(workspace.databaseCopy);
      }
    }
  });
  appendFileSync(workspace.files, files.map((file) => `,\n${JSON.stringify(file)}`).join(''), { mode: 0o600 });
  appendFileSync(workspace.databases, databases.map((one) => `,\n${JSON.stringify(one)}`).join(''), { mode: 0o600 });
  return { files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}

/** Appends the manifest and the end of the archive; answers the archive's size. */
async function packManifest(workspace: BackupWorkspace, head: BackupHead): Promise<number> {
  const lists = [workspace.databases, workspace.files].map((file) => readFileSync(file).subarray(1));
  const manifest = Buffer.concat([
    Buffer.from(`${JSON.stringify(head, null, 1).slice(0, -2)},\n "databases": [`),
    lists[0] as Buffer,
    Buffer.from('\n],\n "files": ['),
    lists[1] as Buffer,
    Buffer.from('\n]}\n'),
  ]);
  if (manifest.length > LIMITS.backupManifestBytes)
    throw new SvcError('BACKUP_TOO_LARGE', 'The backup has too many files: its manifest would be too large.');
  const content = { size: manifest.length, modifiedAt: Date.parse(head.takenAt), chunks: [manifest] };
  await append(workspace, async function* () {
    yield* pack([], BACKUP_MANIFEST, content, () => {});
    yield END_OF_ARCHIVE;
  });
  return statSync(workspace.archive).size;
}

/** `modifiedAt` in milliseconds since the epoch; `chunks` have `size` bytes together. */
type Content = { size: number; modifiedAt: number; chunks: Iterable<Buffer> };

async function append(workspace: BackupWorkspace, content: () => AsyncIterable<Buffer>): Promise<void> {
  await pipeline(
    content,
    createGzip({ level: COMPRESSION, chunkSize: CHUNK_BYTES }),
    createWriteStream(workspace.archive, { flags: 'a', mode: 0o600 }),
  );
}

function* pack(files: BackupFile[], path: string, content: Content, check: () => void): Generator<Buffer> {
  // What could not be restored is not packed.
  backupPathKind(path);
  const { size, modifiedAt, chunks } = content;
  yield fileHeader(path, size, modifiedAt);
  const hash = createHash('sha256');
  let bytes = 0;
  for (const chunk of chunks) {
    check();
    hash.update(chunk);
    bytes += chunk.length;
    yield chunk;
  }
  if (bytes !== size) throw new Error(`${path} changed while it was packed.`);
  yield padding(size);
  files.push({ path, bytes, sha256: hash.digest('hex') });
}

/** Leaves out a missing file. If one is replaced meanwhile, the old content is read from the open file. */
function* packFile(files: BackupFile[], path: string, from: string, check: () => void): Generator<Buffer> {
  const fd = openExisting(from);
  if (fd === null) return;
  try {
    const { size, mtimeMs } = fstatSync(fd);
    yield* pack(files, path, { size, modifiedAt: mtimeMs, chunks: chunksOf(fd, size) }, check);
  } finally {
    closeSync(fd);
  }
}

/**
 * A file, or what is in a folder without links and temporary files, and with files that appeared meanwhile: loose objects may have
 * moved into a new pack.
 */
function* packFiles(files: BackupFile[], path: string, from: string, check: () => void): Generator<Buffer> {
  const known = new Set<string>();
  for (let looks = 1; looks <= LOOKS; looks++) {
    const found = filesAt(from).filter((file) => !known.has(file));
    if (found.length === 0) return;
    for (const file of found) {
      known.add(file);
      yield* packFile(files, `${path}${file.slice(from.length)}`, file, check);
    }
  }
}

/** Sorted; none where nothing is. */
function filesAt(from: string): string[] {
  const stats = statSync(from, { throwIfNoEntry: false });
  if (!stats?.isDirectory()) return stats === undefined ? [] : [from];
  const found = listTreeSync(from).filter((entry) => entry.isFile() && !/\.(?:tmp|lock)$/.test(entry.name));
  return found.map(pathOf).sort();
}

function textContent(text: string): Content {
  const bytes = Buffer.from(text);
  return { size: bytes.length, modifiedAt: Date.now(), chunks: [bytes] };
}

function* chunksOf(fd: number, size: number): Generator<Buffer> {
  for (let at = 0; at < size; ) {
    // A buffer for each: the one before may still be on its way through the compression.
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - at));
    const read = readSync(fd, chunk, 0, chunk.length, at);
    if (read === 0) return;
    at += read;
    yield chunk.subarray(0, read);
  }
}

function openExisting(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
