/** Durable writing in a job thread, where synchronous calls are the fastest and nobody waits for the loop. */
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** A new file that is written in pieces. It must not exist. */
export class NewFile {
  #fd: number | null;

  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    this.#fd = openSync(path, 'wx', FILE_MODE);
  }

  write(bytes: Uint8Array): void {
    if (this.#fd === null) throw new Error('The file is closed.');
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at);
  }

  /** Makes the content durable. */
  finish(): void {
    if (this.#fd !== null) fsyncSync(this.#fd);
    this.close();
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

export function writeNewFile(path: string, content: string | Uint8Array): void {
  const file = new NewFile(path);
  try {
    file.write(typeof content === 'string' ? Buffer.from(content) : content);
    file.finish();
  } finally {
    file.close();
  }
}

export function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
}

/** Makes the names in a folder and below durable. */
export function syncFolders(dir: string): void {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (entry.isDirectory()) syncFolders(join(dir, entry.name));
  }
  if (process.platform === 'win32') return;
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
