/** Trace ids: the one of an incoming `traceparent` (W3C Trace Context), else a new one of the same form. */
import { randomBytes } from 'node:crypto';

/** Not version ff, and no id of zeros: the recommendation calls them invalid. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

// Random once, then counted: unique for this boot and the others, at no cost per call.
const prefix = randomBytes(8).toString('hex');
let counter = 0;

/** 32 hex characters. */
export function newTraceId(traceparent: string | undefined): string {
  const given = traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1];
  return given ?? prefix + (++counter).toString(16).padStart(16, '0');
}
