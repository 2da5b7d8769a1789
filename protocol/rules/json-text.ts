/**
 * Looks at JSON text in its bytes before it is parsed, or instead: how deep it nests, how many values it has, and where the members
 * of an object are. Malformed content is found when the whole text is parsed. Pure.
 */
import { LIMITS } from '../limits.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Whether arrays and objects nest deeper than `LIMITS.jsonDepth`: `JSON.parse` takes any depth, but `JSON.stringify` fails at some
 * thousand levels, earlier on a fuller stack, so a stored value might not be answerable. Of what is not JSON the answer means
 * nothing.
 */
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
    else if ((byte | 0x20) === OPEN_OBJECT) {
      if (++depth > LIMITS.jsonDepth) return 'depth';
      if (++values > mostValues) return 'values';
    } else if ((byte | 0x20) === CLOSE_OBJECT) depth--;
    else if (byte === COMMA && ++values > mostValues) return 'values';
  }
  return null;
}

/**
 * The texts of an object's members with these names, in a time that does not depend on the content of the others; the last one of a
 * repeated name, as in `JSON.parse`. Null when this is no object, or nests deeper than `LIMITS.jsonDepth`. Throws a `SyntaxError`
 * for a malformed name.
 */
export function membersOf(json: Uint8Array, names: readonly string[]): Map<string, Uint8Array> | null {
  const members = new Map<string, Uint8Array>();
  const isWhole = visitMembers(json, (nameFrom, nameTo, from, to) => {
    const name = JSON.parse(textOf(json, nameFrom, nameTo)) as string;
    if (names.includes(name)) members.set(name, json.subarray(from, to));
  });
  return isWhole ? members : null;
}

/**
 * The bytes of one member of an object as text with a character for each, the last one of a repeated name; `missing` where there is
 * none. For JSON that is known to be valid: a fraction of the work of `membersOf`. Null as there.
 */
export function memberBytes(json: Uint8Array, name: string, missing: string): string | null {
  let [start, end] = [-1, -1];
  const isWhole = visitMembers(json, (nameFrom, nameTo, from, to) => {
    if (isNamed(json, nameFrom, nameTo, name)) [start, end] = [from, to];
  });
  if (!isWhole) return null;
  return start < 0 ? missing : Buffer.from(json.buffer, json.byteOffset, json.length).toString('latin1', start, end);
}

/** Tells where the names of an object's members are, with their quotes, and the values. False when `membersOf` answers null. */
function visitMembers(
  json: Uint8Array,
  visit: (nameFrom: number, nameTo: number, from: number, to: number) => void,
): boolean {
  let at = afterSpace(json, 0);
  if (json[at] !== OPEN_OBJECT) return false;
  at = afterSpace(json, at + 1);
  while (json[at] === QUOTE) {
    const nameFrom = at;
    const nameTo = endOfText(json, at) + 1;
    at = afterSpace(json, nameTo);
    if (json[at] !== COLON) return false;
    const from = afterSpace(json, at + 1);
    const to = endOfValue(json, from);
    if (to === null) return false;
    visit(nameFrom, nameTo, from, to);
    at = to;
    if (json[at] === COMMA) at = afterSpace(json, at + 1);
    else break;
  }
  return json[at] === CLOSE_OBJECT && afterSpace(json, at + 1) === json.length;
}

/** Whether the text in quotes there is `name`, which is ASCII without anything to escape; it may be written with escapes. */
function isNamed(json: Uint8Array, from: number, to: number, name: string): boolean {
  const length = to - from - 2;
  // An escape is longer than what it stands for.
  if (length > name.length)
    return json.subarray(from, to).includes(BACKSLASH) && JSON.parse(textOf(json, from, to)) === name;
  if (length < name.length) return false;
  for (let at = 0; at < name.length; at++) if (json[from + 1 + at] !== name.charCodeAt(at)) return false;
  return true;
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

/** Where the text that begins at `at` ends: its closing quote. */
function endOfText(bytes: Uint8Array, at: number): number {
  for (let next = at + 1; next < bytes.length; next++) {
    if (bytes[next] === BACKSLASH) next++;
    else if (bytes[next] === QUOTE) return next;
  }
  return bytes.length;
}
