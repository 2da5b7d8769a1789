/**
 * Takes the place of Node's modules and globals in our own code in a realm, where the build puts it: those belong to the thread. There is
 * no more of Node in a realm than is named here.
 */
import { across, guarded } from './crossing.ts';
import type { Given } from './given.ts';
import { leave } from './leaving.ts';

/** The thread calls our code as the body of a function with this parameter. */
declare const given: Given;

const { Buffer: Bytes, now, buffer, crypto, fs, path, process, util } = given.node;

class OwnDOMException extends Error {
  constructor(message: string, name: string) {
    super(message);
    this.name = name;
  }
}

class OwnAbortController {
  constructor() {
    leave('globals', 'ctx.signal');
  }
}

const OwnBuffer = {
  from: guarded(Bytes.from as (from: string) => Buffer),
  alloc: guarded(Bytes.alloc),
  concat: guarded(Bytes.concat),
  byteLength: guarded(Bytes.byteLength),
  prototype: {
    toString(this: Buffer, encoding?: BufferEncoding) {
      return across(() => Bytes.prototype.toString.call(this, encoding));
    },
  },
};

const ownPerformance = { now: guarded(now) };

/** `run` is called in a turn of its own. */
function startImmediate(run: () => void): void {
  across(() => given.startTimer('immediate', 0, run));
}

function startTimeout(run: () => void, ms: number): { unref(): void } {
  const timer = across(() => given.startTimer('timeout', ms, run));
  return { unref: () => void across(() => timer.unref()) };
}

export {
  OwnAbortController as AbortController,
  OwnBuffer as Buffer,
  OwnDOMException as DOMException,
  ownPerformance as performance,
  startImmediate as setImmediate,
  startTimeout as setTimeout,
};
export const isUtf8 = guarded(buffer.isUtf8);
export const randomBytes = guarded(crypto.randomBytes as (size: number) => Buffer);
export const { randomUUID } = crypto;
export const readFileSync = guarded(fs.readFileSync);
export const statSync = guarded(fs.statSync as (...given: never[]) => unknown);
export const join = guarded(path.join);
export const posix = { join: guarded(path.posix.join), dirname: guarded(path.posix.dirname) };
export const { hrtime } = process;
export const isDeepStrictEqual = guarded(util.isDeepStrictEqual);
/** Of texts of ours. */
export const inspect = guarded(util.inspect as (text: string) => string);
export { format } from './format.ts';
