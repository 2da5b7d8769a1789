/**
 * Runs the code of a process or thread with V8's cache of it, which saves compiling it (built as dist/cached-code.cjs). A cache that
 * is missing, damaged, or of another version or other flags of Node costs its start the time, and nothing else.
 */
import { createHash } from 'node:crypto';
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { Script } from 'node:vm';
import { threadId } from 'node:worker_threads';

/** The bytes before V8's: their SHA-256. V8 itself trusts what it is given. */
const DIGEST_BYTES = 32;

/** What the build makes of an entry: a function of what Node gives to a CommonJS module, and of what imports a module. */
type Code = (
  exports: object,
  require: NodeJS.Require,
  module: { exports: object },
  filename: string,
  folder: string,
  importModule: (specifier: string) => Promise<object>,
) => void;

/** By the file of its cache, what this thread has run. */
const ran = new Map<string, Script>();

/**
 * Runs the code that stands beside `entry`, such as `writer.code.js` beside `writer.cjs`, as if it were in `entry`; returns what it
 * exports. `id` names one build of it: a cache of another one has another name.
 */
export function runCached(entry: string, id: string): object {
  const file = entry.replace(/\.cjs$/, '.code.js');
  const cacheFile = entry.replace(/\.cjs$/, `.${id}.cache`);
  const cachedData = cacheAt(cacheFile);
  const script = new Script(readFileSync(file, 'latin1'), {
    // As a module is named, in stacks too.
    filename: pathToFileURL(file).href,
    ...(cachedData && { cachedData }),
  });
  ran.set(cacheFile, script);
  const module = { exports: {} };
  const code = script.runInThisContext() as Code;
  code(module.exports, createRequire(entry), module, entry, dirname(entry), (specifier) => import(specifier));
  return module.exports;
}

/** Stores what V8 has compiled so far of what this thread has run, unless a thread that used more of it did. For the build. */
export function storeCaches(): void {
  for (const [path, script] of ran) {
    const cache = script.createCachedData();
    if (cache.length <= (cacheAt(path)?.length ?? 0)) continue;
    const made = `${path}-${process.pid}-${threadId}`;
    writeFileSync(made, Buffer.concat([digestOf(cache), cache]));
    chmodSync(made, 0o644);
    renameSync(made, path);
  }
}

function cacheAt(path: string): Buffer | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch {
    return null;
  }
  const cache = bytes.subarray(DIGEST_BYTES);
  return digestOf(cache).equals(bytes.subarray(0, DIGEST_BYTES)) ? cache : null;
}

function digestOf(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
