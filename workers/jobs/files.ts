/** Writing in a job thread, where synchronous calls are the fastest and nobody waits for the loop. */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

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
