/**
 * Limits the depth and the number of values of JSON text. `JSON.parse` takes any depth, but `JSON.stringify` fails at some
 * thousand levels, earlier on a fuller stack: a stored value might not be answerable. Pure.
 */
import { LIMITS } from '../limits.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/** Whether arrays and objects nest deeper than `LIMITS.jsonDepth`. Of what is not JSON the answer means nothing. */
export function isTooDeep(json: Uint8Array | string): boolean {
  if (json.length <= LIMITS.jsonDepth) return false;
  return measure(typeof json === 'string' ? Buffer.from(json) : json, Number.POSITIVE_INFINITY) === 'depth';
}

/**
 * Which limit JSON text is over, if any: that of its depth, or `LIMITS.jsonValues`. To parse a text within both takes a
 * fraction of the time that the worst one of its length takes. Of what is not JSON the answer means nothing.
 */
export function overLimit(json: Uint8Array): 'depth' | 'values' | null {
  return json.length <= LIMITS.jsonDepth ? null : measure(json, LIMITS.jsonValues);
}

/** A value is counted where it begins an array or object, and at the comma behind it. */
function measure(bytes: Uint8Array, mostValues: number): 'depth' | 'values' | null {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = endOfText(bytes, at);
    // `[` and `{`, `]` and `}`: they differ in one bit.
    else if ((byte | 0x20) === 0x7b) {
      if (++depth > LIMITS.jsonDepth) return 'depth';
      if (++values > mostValues) return 'values';
    } else if ((byte | 0x20) === 0x7d) depth--;
    else if (byte === COMMA && ++values > mostValues) return 'values';
  }
  return null;
}

/** Where the text that begins at `at` ends: its closing quote. */
export function endOfText(bytes: Uint8Array, at: number): number {
  for (let next = at + 1; next < bytes.length; next++) {
    if (bytes[next] === BACKSLASH) next++;
    else if (bytes[next] === QUOTE) return next;
  }
  return bytes.length;
}
