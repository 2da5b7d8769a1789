/** Inputs, arguments and outputs as they are stored: JSON text, of which only the beginning is kept when it is long. Pure. */
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-depth.ts';

/** Stands where a value was too long: `head` is the beginning of its JSON text, `bytes` the length of all of it. */
export type CutValue = { cut: true; bytes: number; head: string };

/** The marker's own text, besides the head; in the head every character may have to be escaped. */
const MARKER_BYTES = 64;
const MARKER = /^\{"cut":true,"bytes":(\d+),"head":"/;

/** As followers see a value and the ledger takes it: `json` is JSON text, empty for nothing. It is not parsed when it is too long or deep. */
export function recordedValue(json: Uint8Array): unknown {
  if (json.length === 0) return null;
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  if (bytes.length > LIMITS.runValueBytes || isTooDeep(bytes)) return cut(bytes, LIMITS.runValueBytes);
  return JSON.parse(bytes.toString()) as unknown;
}

/** The value as JSON text of at most `limit` bytes; null for a value that is absent or null. */
export function storedText(value: unknown, limit: number = LIMITS.runValueBytes): string | null {
  if (value === undefined || value === null) return null;
  const text = JSON.stringify(value);
  if (text.length * 3 <= limit) return text;
  return Buffer.byteLength(text) <= limit ? text : JSON.stringify(cut(Buffer.from(text), limit));
}

/** The value as the ledger gives it back: itself, or a `CutValue`. For records that are published before they are stored. */
export function cutRunValue(value: unknown): unknown {
  const text = storedText(value);
  if (text === null) return null;
  return MARKER.test(text) ? JSON.parse(text) : value;
}

/** What `storedText` made; `bytes` is the length of it all, of which `text` may be the beginning only. */
export function storedValue(text: string | null, bytes: number): unknown {
  if (text === null) return null;
  if (bytes <= LIMITS.runListedBytes || Buffer.byteLength(text) === bytes) return JSON.parse(text);
  const marker = MARKER.exec(text);
  if (!marker) return { cut: true, bytes, head: text } satisfies CutValue;
  // JSON text holds no control characters, so that nothing else is escaped in it.
  const head = text.slice(marker[0].length).replace(/\\(["\\])|\\$/g, '$1');
  return { cut: true, bytes: Number(marker[1]), head } satisfies CutValue;
}

/** The text without what is over `most` characters. */
export function cutText(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

/** Its JSON text has at most `limit` bytes: that of the head grows to at most twice its size in a JSON string. */
function cut(json: Buffer, limit: number): CutValue {
  const head = json.toString('utf8', 0, Math.floor((limit - MARKER_BYTES) / 2));
  // A character that was cut through.
  return { cut: true, bytes: json.length, head: head.replace(/\uFFFD+$/, '') };
}
