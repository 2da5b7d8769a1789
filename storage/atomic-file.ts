/** Files and folders that are either old or new after a crash, never half: temporary name, fsync, rename, fsync of the folder. */
import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { access, cp, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { crashPoint } from './crash-point.ts';

/** Replaces the file, durably. The folder must exist. Rejects with Node's error (`ENOSPC`, …) and leaves the old file. */
export async function writeFileAtomic(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  const staged = await StagedFile.write(path, data, mode);
  await staged.place();
}

/** The next content of a file, durable under a temporary name beside it: to take its place needs no more room on the disk. */
export class StagedFile {
  readonly #path: string;
  readonly #temporary: string;

  private constructor(path: string, temporary: string) {
    this.#path = path;
    this.#temporary = temporary;
  }

  /** Rejects with Node's error, and leaves nothing. */
  static async write(path: string, data: string | Uint8Array, mode = 0o600): Promise<StagedFile> {
    const name = basename(path);
    const temporary = join(dirname(path), `.${name}.${randomUUID()}.tmp`);
    const staged = new StagedFile(path, temporary);
    try {
      const file = await open(temporary, 'wx', mode);
      try {
        crashPoint('file.created', name);
        await file.writeFile(data);
        crashPoint('file.written', name);
        await file.sync();
        crashPoint('file.synced', name);
      } finally {
        await file.close();
      }
    } catch (error) {
      await staged.discard();
      throw error;
    }
    return staged;
  }

  /** Replaces the file, durably. */
  async place(): Promise<void> {
    const name = basename(this.#path);
    try {
      await rename(this.#temporary, this.#path);
    } catch (error) {
      await this.discard();
      throw error;
    }
    crashPoint('file.renamed', name);
    await syncDir(dirname(this.#path));
    crashPoint('file.durable', name);
  }

  async discard(): Promise<void> {
    await rm(this.#temporary, { force: true });
  }
}

/** The parsed file; undefined when there is none. Rejects with a `SyntaxError` when it is not JSON. */
export async function readJson(path: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  return JSON.parse(text);
}

/**
 * Takes a folder out of the place of a file that is to be written there; nothing of ours ever makes one. What was in it is
 * beside it, as `<name>.damaged`.
 */
export async function clearPlace(path: string): Promise<void> {
  if (!((await lstat(path).catch(() => null))?.isDirectory() ?? false)) return;
  await rm(`${path}.damaged`, { recursive: true, force: true });
  await renameDurable(path, `${path}.damaged`);
}

/** Whether reading a file failed because of what somebody put in its place: a folder, or a link that leads nowhere. */
export function isNoFile(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'EISDIR' || code === 'ELOOP';
}

/** Makes the names in a folder durable: what was created, renamed or removed in it. */
export async function syncDir(path: string): Promise<void> {
  const dir = await open(path, 'r');
  try {
    await dir.sync();
  } finally {
    await dir.close();
  }
}

/** Moves a file or folder within one file system, durably. The target's folder is created when missing. */
export async function renameDurable(from: string, to: string): Promise<void> {
  await mkdirDurable(dirname(to));
  crashPoint('move.folder-made');
  await rename(from, to);
  crashPoint('move.renamed');
  await syncDir(dirname(to));
  crashPoint('move.target-synced');
  await syncDir(dirname(from));
}

/** Moves a folder, to another file system too: it then arrives whole under its name before the old one goes. */
export async function moveDir(from: string, to: string): Promise<void> {
  try {
    await renameDurable(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    const arriving = join(dirname(to), `.${basename(to)}.tmp`);
    await rm(arriving, { recursive: true, force: true });
    await cp(from, arriving, { recursive: true, preserveTimestamps: true });
    crashPoint('copy.copied');
    await renameDurable(arriving, to);
    crashPoint('copy.arrived');
    // Set aside as a whole first: what is left of a removal that was cut off must not be taken for the folder.
    const leaving = join(dirname(from), `.${basename(from)}.tmp`);
    await renameDurable(from, leaving);
    crashPoint('copy.source-aside');
    await rm(leaving, { recursive: true, force: true });
    crashPoint('copy.source-removed');
  }
}

/** Removes a file that may be missing, durably. */
export async function removeDurable(path: string): Promise<void> {
  await rm(path, { force: true });
  crashPoint('file.removed', basename(path));
  await syncDir(dirname(path));
}

/** Creates a folder and those above it, durably; readable by its owner only. */
export async function mkdirDurable(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  crashPoint('folder.made');
  // Each is a name in the one above it.
  for (let made = resolve(path); made.length >= first.length; made = dirname(made)) await syncDir(dirname(made));
}

export async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** As `exists`, of the name itself: a link that leads nowhere is there too. */
export async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

/** Names in a folder, in order; none of one that is missing. */
export async function namesIn(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(noneWhenMissing)).sort();
}

/** As `namesIn`, for programs and threads that may wait. */
export function namesInSync(dir: string): string[] {
  try {
    return readdirSync(dir).sort();
  } catch (error) {
    return noneWhenMissing(error);
  }
}

function noneWhenMissing(error: unknown): string[] {
  if (isMissing(error)) return [];
  throw error;
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
