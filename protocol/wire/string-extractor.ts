/**
 * Loads the native part of msgpackr, which reads strings in half the time. The build uses this instead of msgpackr's own
 * loader, the package `msgpackr-extract`, which takes ten times as long to find the right file as to load it, in each process
 * and thread.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

type Extractor = { extractStrings: unknown };

const load = createRequire(import.meta.url);

/** What the names of the files end with on Linux; the libraries of this process say it. Throws where they cannot be read. */
function libc(): string {
  return readFileSync('/proc/self/maps', 'latin1').includes('/ld-musl-') ? '.musl' : '.glibc';
}

function loadExtractor(): Extractor {
  const { arch, platform, versions } = process;
  const folder = `@msgpackr-extract/msgpackr-extract-${platform}-${arch}`;
  try {
    const end = platform === 'linux' ? libc() : '';
    try {
      return load(`${folder}/node.abi${versions.modules}${end}.node`);
    } catch {
      return load(`${folder}/node.napi${end}.node`);
    }
  } catch {
    // It is in another place, or was compiled here.
    return load('msgpackr-extract');
  }
}

export const { extractStrings } = loadExtractor();
