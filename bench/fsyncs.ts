/** Counts how often a server and the programs it starts wait for the disk, by a library that is loaded into them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileShim, whyNoShim } from '../testing/shim/compile.ts';

const COUNTER_BYTES = 8;

/** `env` is for the environment of the server, `count` how often since it began. */
export type FsyncCounter = { env: Record<string, string>; count(): number };

/** Makes one for each name, in `folder`; nothing is counted where there is no C compiler. */
export function fsyncCounters(folder: string): (name: string) => FsyncCounter | null {
  if (whyNoShim() !== null) return () => null;
  const library = join(folder, 'fsyncs.so');
  compileShim('fsyncs.c', library);
  return (name) => {
    const file = join(folder, `${name}.fsyncs`);
    writeFileSync(file, Buffer.alloc(COUNTER_BYTES));
    return {
      env: { LD_PRELOAD: library, FSYNCS_FILE: file },
      count: () => Number(readFileSync(file).readBigUInt64LE()),
    };
  };
}
