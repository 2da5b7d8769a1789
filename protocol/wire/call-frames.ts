/**
 * The two frames of a tool call as bytes, written and read by hand: they are most of all frames, and the general way costs
 * several times as much. The bytes are MessagePack like any other frame's. Pure.
 *
 * Numbers are always written as float64, so that a frame has one form; the reader takes that form only and leaves every
 * other to the general way.
 */
import { type DispatchFrame, type Frame, Kind, type ResultFrame, type ToolKindValue } from '../frames.ts';

const ARRAY_5 = 0x95;
const ARRAY_7 = 0x97;
const FLOAT_64 = 0xcb;
const STR_16 = 0xda;
const BIN_32 = 0xc6;

/** Longer texts are left to the general way. */
const MAX_TEXT = 0x7fff;
/** Of each frame, besides its body and texts. */
const DISPATCH_OVERHEAD = 2 + 9 + 9 + 1 + 3 + 5 + 3;
const RESULT_OVERHEAD = 2 + 9 + 9 + 5 + 9;

/** Over the memory of the latest frame; neighbours share it. */
let view: DataView = new DataView(new ArrayBuffer(0));

// Frames are read by index and numbers through a DataView: in threads that are called once in a while this code is never
// compiled, and there each step of a loop or of an array's iterator costs as much as a call.

/** The most bytes this frame can take, or 0 when it has to go the general way; so do frames that are not what their type says. */
export function callFrameRoom(frame: Frame): number {
  if (frame[0] === Kind.result) return isResult(frame) ? RESULT_OVERHEAD + frame[3].length : 0;
  if (frame[0] !== Kind.dispatch || !isDispatch(frame)) return 0;
  const tool = frame[4];
  const body = frame[5];
  const traceId = frame[6];
  if (tool.length > MAX_TEXT || traceId.length > MAX_TEXT) return 0;
  return DISPATCH_OVERHEAD + 3 * (tool.length + traceId.length) + body.length;
}

function isResult(frame: ResultFrame): boolean {
  const numbers = typeof frame[1] === 'number' && typeof frame[2] === 'number' && typeof frame[4] === 'number';
  return numbers && frame.length === 5 && frame[3] instanceof Uint8Array;
}

/** The numbers of `ToolKind`, without a gap from 0 on. */
function isToolKind(kind: unknown): kind is ToolKindValue {
  return kind === 0 || kind === 1 || kind === 2 || kind === 3 || kind === 4;
}

function isDispatch(frame: DispatchFrame): boolean {
  if (typeof frame[1] !== 'number' || typeof frame[2] !== 'number' || frame.length !== 7) return false;
  if (!isToolKind(frame[3])) return false;
  return typeof frame[4] === 'string' && typeof frame[6] === 'string' && frame[5] instanceof Uint8Array;
}

/** Writes a frame for which `callFrameRoom` found room, from `at` on; returns where it ends. */
export function writeCallFrame(into: Buffer, at: number, frame: DispatchFrame | ResultFrame): number {
  if (frame[0] === Kind.result) {
    into[at] = ARRAY_5;
    into[at + 1] = Kind.result;
    const status = writeNumber(into, at + 2, frame[1]);
    const body = writeBytes(into, writeNumber(into, status, frame[2]), frame[3]);
    return writeNumber(into, body, frame[4]);
  }
  into[at] = ARRAY_7;
  into[at + 1] = Kind.dispatch;
  const kind = writeNumber(into, writeNumber(into, at + 2, frame[1]), frame[2]);
  into[kind] = frame[3];
  const body = writeBytes(into, writeText(into, kind + 1, frame[4]), frame[5]);
  return writeText(into, body, frame[6]);
}

/**
 * Reads the frame that takes exactly the bytes from `at` to `end`; null when it is not one of ours or not in our form. Its
 * body shares the memory of `from`.
 */
export function readCallFrame(from: Buffer, at: number, end: number): DispatchFrame | ResultFrame | null {
  // The shorter of the two.
  if (end - at < DISPATCH_OVERHEAD) return null;
  if (from[at] === ARRAY_5 && from[at + 1] === Kind.result) return readResult(from, at + 2, end);
  if (from[at] === ARRAY_7 && from[at + 1] === Kind.dispatch) return readDispatch(from, at + 2, end);
  return null;
}

function readResult(from: Buffer, at: number, end: number): ResultFrame | null {
  if (from[at] !== FLOAT_64 || from[at + 9] !== FLOAT_64 || from[at + 18] !== BIN_32) return null;
  const start = at + 23;
  const stop = start + from.readUInt32BE(at + 19);
  if (stop + 9 !== end || from[stop] !== FLOAT_64) return null;
  return [
    Kind.result,
    readNumber(from, at),
    readNumber(from, at + 9),
    bytesOf(from, start, stop),
    readNumber(from, stop),
  ];
}

function readDispatch(from: Buffer, at: number, end: number): DispatchFrame | null {
  if (from[at] !== FLOAT_64 || from[at + 9] !== FLOAT_64 || from[at + 19] !== STR_16) return null;
  const kind = from[at + 18];
  if (!isToolKind(kind)) return null;
  const tool = at + 22;
  const bin = tool + from.readUInt16BE(at + 20);
  if (bin + 5 > end || from[bin] !== BIN_32) return null;
  const body = bin + 5;
  const str = body + from.readUInt32BE(bin + 1);
  if (str + 3 > end || from[str] !== STR_16) return null;
  const trace = str + 3;
  if (trace + from.readUInt16BE(str + 1) !== end) return null;
  return [
    Kind.dispatch,
    readNumber(from, at),
    readNumber(from, at + 9),
    kind,
    textOf(from, tool, bin),
    bytesOf(from, body, str),
    textOf(from, trace, end),
  ];
}

function writeNumber(into: Buffer, at: number, value: number): number {
  into[at] = FLOAT_64;
  viewOf(into).setFloat64(into.byteOffset + at + 1, value);
  return at + 9;
}

function readNumber(from: Buffer, at: number): number {
  return viewOf(from).getFloat64(from.byteOffset + at + 1);
}

function viewOf({ buffer }: Buffer): DataView {
  if (view.buffer !== buffer) view = new DataView(buffer);
  return view;
}

/** Most texts are short and ASCII: written here, without a call into native code. */
function writeText(into: Buffer, at: number, text: string): number {
  let length = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) {
      length = into.write(text, at + 3, 'utf8');
      break;
    }
    into[at + 3 + i] = code;
  }
  into[at] = STR_16;
  into[at + 1] = length >>> 8;
  into[at + 2] = length;
  return at + 3 + length;
}

function textOf(from: Buffer, start: number, stop: number): string {
  // Without the name of an encoding, which would have to be looked up.
  return from.toString(undefined, start, stop);
}

function writeBytes(into: Buffer, at: number, bytes: Uint8Array): number {
  const { length } = bytes;
  into[at] = BIN_32;
  into[at + 1] = length >>> 24;
  into[at + 2] = length >>> 16;
  into[at + 3] = length >>> 8;
  into[at + 4] = length;
  into.set(bytes, at + 5);
  return at + 5 + length;
}

function bytesOf(from: Buffer, start: number, stop: number): Uint8Array {
  return new Uint8Array(from.buffer, from.byteOffset + start, stop - start);
}
