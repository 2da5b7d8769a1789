/** Writing in a job thread, where synchronous calls are the fastest and nobody waits for the loop. */
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** From this many files on, one flush of the whole file system costs less than one for each of them. */
const FLUSH_ALL_FILES = 200;

/** A new file that is written in pieces. It must not exist. */
export class NewFile {
  #fd: number | null;

  constructor(path: string) {
    this.#fd = openNew(path);
  }

  write(bytes: Uint8Array): void {
    if (this.#fd === null) throw new Error('The file is closed.');
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** Most files lie in a folder that is there already: asking first would cost as much as the file. */
function openNew(path: string): number {
  try {
    return openSync(path, 'wx', FILE_MODE);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    makeFolder(dirname(path));
    return openSync(path, 'wx', FILE_MODE);
  }
}

export function writeNewFile(path: string, content: string | Uint8Array): void {
  const file = new NewFile(path);
  try {
    file.write(typeof content === 'string' ? Buffer.from(content) : content);
  } finally {
    file.close();
  }
}

export function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
}

/** Makes everything in the folder durable: contents and names. */
export function syncTree(dir: string): void {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (files.length >= FLUSH_ALL_FILES && syncFileSystem(dir)) return;
  for (const path of files) sync(path, 'r+');
  // Windows has no handle for a folder; its file system journals names itself.
  if (process.platform === 'win32') return;
  for (const entry of entries) if (entry.isDirectory()) sync(join(entry.parentPath, entry.name), 'r');
  sync(dir, 'r');
}

/** syncfs(2), which Node does not offer but every Linux has a program for. */
function syncFileSystem(dir: string): boolean {
  return process.platform === 'linux' && spawnSync('sync', ['-f', dir], { stdio: 'ignore' }).status === 0;
}

function sync(path: string, flags: string): void {
  const fd = openSync(path, flags);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
