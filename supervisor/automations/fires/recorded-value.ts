/** Inputs, arguments and outputs as followers see them and the ledger takes them: from JSON text, which is not parsed when it is too long. */

import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-depth.ts';

/** JSON text grows to at most twice its size in a JSON string; the rest of the marker needs little. */
const HEAD_BYTES = Math.floor(LIMITS.runValueBytes / 2) - 64;

/** `json` is JSON text, empty for nothing, which is recorded as null. Of a long or deep one it is the marker with its beginning. */
export function recordedValue(json: Uint8Array): unknown {
  if (json.length === 0) return null;
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  if (bytes.length > LIMITS.runValueBytes || isTooDeep(bytes)) {
    // The last character may have been cut through.
    const head = bytes.toString('utf8', 0, HEAD_BYTES).replace(/\uFFFD+$/, '');
    return { cut: true, bytes: bytes.length, head };
  }
  return JSON.parse(bytes.toString()) as unknown;
}
