/**
 * How deep JSON text nests. `JSON.parse` takes any depth and `JSON.stringify` gives up at some thousand levels, fewer the more is
 * on the stack: what one place has stored, another could not answer with. Pure.
 */
import { LIMITS } from './limits.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Whether arrays and objects nest deeper than `LIMITS.jsonDepth`. Of what is not JSON the answer means nothing. */
export function isTooDeep(json: Uint8Array | string): boolean {
  if (json.length <= LIMITS.jsonDepth) return false;
  const bytes = typeof json === 'string' ? Buffer.from(json) : json;
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = endOfText(bytes, at);
    // `[` and `{`, `]` and `}`: they differ in one bit.
    else if ((byte | 0x20) === 0x7b) {
      if (++depth > LIMITS.jsonDepth) return true;
    } else if ((byte | 0x20) === 0x7d) depth--;
  }
  return false;
}

/** Where the text that begins at `at` ends: its closing quote. */
function endOfText(bytes: Uint8Array, at: number): number {
  for (let next = at + 1; next < bytes.length; next++) {
    if (bytes[next] === BACKSLASH) next++;
    else if (bytes[next] === QUOTE) return next;
  }
  return bytes.length;
}
