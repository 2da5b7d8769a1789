/** Counts how often a server and the programs it starts wait for the disk, by a library that is loaded into them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileShim, whyNoShim } from '../testing/shim/compile.ts';

const COUNTER_BYTES = 8;

export class FsyncCounter {
  /** For the environment of the server. */
  readonly env: Record<string, string>;
  readonly #file: string;

  private constructor(file: string, library: string) {
    this.#file = file;
    writeFileSync(file, Buffer.alloc(COUNTER_BYTES));
    this.env = { LD_PRELOAD: library, FSYNCS_FILE: file };
  }

  /** One for each name, in `folder`; nothing is counted where there is no C compiler. */
  static makerIn(folder: string): (name: string) => FsyncCounter | null {
    if (whyNoShim() !== null) return () => null;
    const library = join(folder, 'fsyncs.so');
    compileShim('fsyncs.c', library);
    return (name) => new FsyncCounter(join(folder, `${name}.fsyncs`), library);
  }

  /** Since the server began. */
  get count(): number {
    return Number(readFileSync(this.#file).readBigUInt64LE());
  }
}
