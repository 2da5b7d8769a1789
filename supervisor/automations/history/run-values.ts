/** Inputs, arguments and outputs as they are stored: JSON text, of which only the beginning is kept when it is long. Pure. */
import { LIMITS } from '../../../protocol/limits.ts';

/** Stands where a value was too long: `head` is the beginning of its JSON text, `bytes` the length of all of it. */
export type CutValue = { cut: true; bytes: number; head: string };

/** The marker's own text, besides the head; in the head every character may have to be escaped. */
const MARKER_BYTES = 64;
const MARKER = /^\{"cut":true,"bytes":(\d+),"head":"/;

/** The value as JSON text of at most `limit` bytes; null for a value that is absent or null. */
export function storedText(value: unknown, limit: number = LIMITS.runValueBytes): string | null {
  if (value === undefined || value === null) return null;
  const text = JSON.stringify(value);
  if (text.length * 3 <= limit) return text;
  const bytes = Buffer.byteLength(text);
  return bytes <= limit ? text : JSON.stringify(cut(text, bytes, Math.floor((limit - MARKER_BYTES) / 2)));
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

function cut(text: string, bytes: number, most: number): CutValue {
  const head = Buffer.from(text).subarray(0, most).toString();
  // A character that was cut through.
  return { cut: true, bytes, head: head.replace(/\uFFFD+$/, '') };
}
