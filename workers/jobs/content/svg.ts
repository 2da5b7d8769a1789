/**
 * Draws SVGs as pixels, with limits of time and memory, because they may be hostile. The library is WebAssembly: it reaches no
 * file and no network. It has no fonts either. Loaded for the first picture.
 */
import { readFileSync } from 'node:fs';
import { createRequire as requireAt } from 'node:module';
import { compileFunction, createContext, runInContext } from 'node:vm';
import { LIMITS } from '../../../protocol/limits.ts';

/** A square of `size` × `size` pixels: RGBA, premultiplied, from the top. */
export type Picture = { size: number; pixels: Uint8Array };

/** Why an SVG cannot be drawn, for its author. */
export class SvgFault extends Error {}

/** Draws the SVG as large as fits, in the middle of a square. Throws `SvgFault`. */
export type Draw = (size: number) => Picture;

type Rendered = { width: number; height: number; pixels: Uint8Array; free(): void };
type Tree = { width: number; height: number; imagesToResolve(): unknown[]; render(): Rendered; free(): void };
type Resvg = {
  initWasm(module: WebAssembly.Module): Promise<void>;
  Resvg: new (svg: string, options?: { fitTo: { mode: 'width' | 'height'; value: number } }) => Tree;
};

/** Node's types have no values of it. */
const { Module } = (globalThis as unknown as { WebAssembly: WebAssemblyValues }).WebAssembly;
type WebAssemblyValues = { Module: new (bytes: Uint8Array) => WebAssembly.Module };

const PACKAGE = '@resvg/resvg-wasm';
let compiled: WebAssembly.Module | null = null;
/** Only to end what takes too long: a time limit of `vm` ends WebAssembly, too. */
const limited = createContext({});

/** The longest time of a drawing that had to wait for the processor, in times of `timeout`. */
const LONGEST_WAIT = 8;

/**
 * The result of `work`, which is synchronous, draws within its run only, and has `timeout` ms and `LIMITS.iconMemoryMb` for all of it.
 * Rejects with the `SvgFault` that it throws or that ends it, and with another error when the library cannot be loaded. On a busy
 * machine time passes in which nothing is drawn: a drawing that ended without its processor time is begun again with twice as long.
 */
export async function drawing<T>(svg: string, work: (draw: Draw) => T, timeout: number = LIMITS.iconMs): Promise<T> {
  for (let wait = timeout; ; wait *= 2) {
    const library = await loadLibrary();
    limited.work = () => work(drawOf(svg, library));
    const before = process.cpuUsage();
    try {
      return runInContext('work()', limited, { timeout: wait }) as T;
    } catch (error) {
      if (!isTimeout(error) || wait >= LONGEST_WAIT * timeout || hadProcessor(before, timeout))
        throw faultOf(error, timeout);
    } finally {
      delete limited.work;
    }
  }
}

function isTimeout(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}

/** Of the process, which is all that Node 20 knows: no less than what this thread had. */
function hadProcessor(before: NodeJS.CpuUsage, milliseconds: number): boolean {
  const { user, system } = process.cpuUsage(before);
  return user + system >= milliseconds * 1000;
}

/**
 * A new instance each time: what ended one leaves it in any state, and its memory never shrinks. It asks whether it is given a
 * `Request` or a `Response`, for which Node would load its HTTP client: that took twice the time of a drawing.
 */
async function loadLibrary(): Promise<Resvg> {
  const { resolve } = requireAt(import.meta.url);
  const file = resolve(PACKAGE);
  const module = { exports: {} };
  compileFunction(readFileSync(file, 'utf8'), ['module', 'Request', 'Response'], { filename: file })(module);
  const library = module.exports as Resvg;
  compiled ??= new Module(withMemoryLimit(readFileSync(resolve(`${PACKAGE}/index_bg.wasm`))));
  await library.initWasm(compiled);
  return library;
}

function drawOf(svg: string, { Resvg }: Resvg): Draw {
  const natural = new Resvg(svg);
  const mode = natural.width < natural.height ? 'height' : 'width';
  const pictures = natural.imagesToResolve();
  natural.free();
  if (pictures.length > 0) throw new SvgFault('it shows a picture from another address; put it into the file');
  return (size) => {
    const tree = new Resvg(svg, { fitTo: { mode, value: size } });
    const rendered = tree.render();
    const picture = centred(rendered, size);
    rendered.free();
    tree.free();
    return picture;
  };
}

function centred({ width, height, pixels: drawn }: Rendered, size: number): Picture {
  if (width === size && height === size) return { size, pixels: drawn };
  const pixels = new Uint8Array(size * size * 4);
  const [left, top] = [(size - width) >> 1, (size - height) >> 1];
  for (let y = 0; y < height; y++)
    pixels.set(drawn.subarray(y * width * 4, (y + 1) * width * 4), ((top + y) * size + left) * 4);
  return { size, pixels };
}

function faultOf(error: unknown, timeout: number): unknown {
  if (isTimeout(error)) return new SvgFault(`drawing it takes more than ${timeout / 1000} s; make it simpler`);
  if (error instanceof SvgFault || !(error instanceof Error)) return error;
  // What the library says of a file is a plain error; what ends it, such as a full memory or stack, has a name.
  return error.name === 'Error'
    ? new SvgFault(error.message.replace(/^SVG data parsing failed cause /, ''))
    : new SvgFault('drawing it takes too much memory; make it simpler');
}

const MEMORY_SECTION = 5;
/** Of the file, its magic and version. */
const HEAD_BYTES = 8;
const PAGE_BYTES = 64 * 1024;

/** The module with a largest size for its one memory, which says its smallest only (WebAssembly, "Memory Section"). */
export function withMemoryLimit(module: Buffer): Buffer {
  for (let at = HEAD_BYTES; at < module.length; ) {
    const size = readNumber(module, at + 1);
    const end = size.next + size.value;
    if (module[at] === MEMORY_SECTION) {
      const [one, hasMost] = [module[size.next], module[size.next + 1]];
      if (one !== 1 || hasMost !== 0) break;
      const least = readNumber(module, size.next + 2).value;
      const most = (LIMITS.iconMemoryMb * 1024 * 1024) / PAGE_BYTES;
      const memory = [1, 1, ...numberBytes(least), ...numberBytes(most)];
      const section = Buffer.from([MEMORY_SECTION, ...numberBytes(memory.length), ...memory]);
      return Buffer.concat([module.subarray(0, at), section, module.subarray(end)]);
    }
    at = end;
  }
  throw new Error(`${PACKAGE} has another memory than it had.`);
}

/** LEB128: seven bits a byte, the lowest first. */
function readNumber(bytes: Buffer, at: number): { value: number; next: number } {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++] as number;
    value += (byte & 127) * 2 ** shift;
    if (byte < 128) return { value, next: at };
  }
}

function numberBytes(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...numberBytes(value >> 7)];
}
