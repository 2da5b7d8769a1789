/**
 * Finds members of a JSON object in its text, without parsing the others: its time does not depend on their content. Malformed
 * content is found when the whole text is parsed. Pure.
 */
import { LIMITS } from '../limits.ts';
import { endOfText } from './json-depth.ts';

const QUOTE = 0x22;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * The texts of the members with these names; the last one of a repeated name, as in `JSON.parse`. Null when this is no object,
 * or nests deeper than `LIMITS.jsonDepth`. Throws a `SyntaxError` for a malformed name.
 */
export function membersOf(json: Uint8Array, names: readonly string[]): Map<string, Uint8Array> | null {
  const members = new Map<string, Uint8Array>();
  let at = afterSpace(json, 0);
  if (json[at] !== OPEN_OBJECT) return null;
  at = afterSpace(json, at + 1);
  while (json[at] === QUOTE) {
    const nameEnd = endOfText(json, at) + 1;
    const name = JSON.parse(textOf(json, at, nameEnd)) as string;
    at = afterSpace(json, nameEnd);
    if (json[at] !== COLON) return null;
    const from = afterSpace(json, at + 1);
    const to = endOfValue(json, from);
    if (to === null) return null;
    if (names.includes(name)) members.set(name, json.subarray(from, to));
    at = to;
    if (json[at] === COMMA) at = afterSpace(json, at + 1);
    else break;
  }
  return json[at] === CLOSE_OBJECT && afterSpace(json, at + 1) === json.length ? members : null;
}

/** Where a value that begins at `from` ends: the comma or bracket behind it, which is not part of it. Null when it is too deep. */
function endOfValue(json: Uint8Array, from: number): number | null {
  let depth = 0;
  for (let at = from; at < json.length; at++) {
    const byte = json[at] as number;
    if (byte === QUOTE) at = endOfText(json, at);
    // `[` and `{`, `]` and `}`: they differ in one bit.
    else if ((byte | 0x20) === OPEN_OBJECT) {
      // The object around it is one level more.
      if (++depth >= LIMITS.jsonDepth) return null;
    } else if ((byte | 0x20) === CLOSE_OBJECT && depth-- === 0) return at;
    else if (byte === COMMA && depth === 0) return at;
  }
  return json.length;
}

function afterSpace(json: Uint8Array, from: number): number {
  let at = from;
  while (json[at] === 0x20 || json[at] === 0x0a || json[at] === 0x0d || json[at] === 0x09) at++;
  return at;
}

function textOf(json: Uint8Array, from: number, to: number): string {
  return Buffer.from(json.buffer, json.byteOffset + from, to - from).toString();
}
