/** Says why an app has a thread of its own, and what a host tells of the thread of the commons (specification, "Commons"). */

/** A closed list, shown in status and counted: see `supervisor/tree/actor/place.ts`. */
export const OWN_REASONS = [
  'thread',
  'state',
  'modules',
  'globals',
  'action',
  'busy',
  'processor',
  'memory',
  'failed',
] as const;
export type OwnReason = (typeof OWN_REASONS)[number];

/** Those that are known when a version is stored. */
export type KeptReason = Extract<OwnReason, 'thread' | 'state' | 'modules' | 'globals'>;

/** Those that the thread of the commons finds while an app runs in it. */
export type LeaveReason = Extract<OwnReason, 'modules' | 'globals' | 'processor' | 'memory' | 'failed'>;

/** Globals of handlers that the commons do not give: an app that uses one gets a thread of its own. */
export const NOT_GIVEN: readonly string[] = (
  'AbortController AbortSignal Atomics Blob Buffer ByteLengthQueuingStrategy CompressionStream CountQueuingStrategy ' +
  'CryptoKey CustomEvent DOMException DecompressionStream Event EventTarget File FinalizationRegistry FormData Headers ' +
  'ReadableByteStreamController ReadableStream ReadableStreamBYOBReader ReadableStreamBYOBRequest ' +
  'ReadableStreamDefaultController ReadableStreamDefaultReader Request Response SharedArrayBuffer SubtleCrypto ' +
  'TextDecoderStream TextEncoderStream TransformStream TransformStreamDefaultController URLPattern ' +
  'WeakRef WebAssembly WritableStream WritableStreamDefaultController WritableStreamDefaultWriter ' +
  'performance'
).split(' ');

/** How the thread of the commons ended: it did not react, it had no memory left, or it ended by itself; `stuck` when it does not end. */
export type CommonsEnd = 'stalled' | 'memory' | 'crash' | 'stuck';

/**
 * A module of an app as the body of a function, at the same lines and columns: `params` are the names that it imports and, last, that of
 * the function that takes its exports. A JSON file has the text alone.
 */
export type CommonsModule = {
  body: string;
  params: string[];
  /** For each parameter but the last: of which module, and which export; `*` is all of them. */
  imports: [file: string, name: string][];
  /** Exports of other modules under a name here; `*` under the name `*` is all but `default`. */
  again: [name: string, file: string, imported: string][];
  /** The modules to run before it, in order. */
  needs: string[];
};

/** Its file among the prepared ones of a version. */
export const COMMONS_FILE = 'commons.json';

/** What the queries of a version need in the commons: their modules by path, and the file of each query. */
export type CommonsScript = {
  queries: Record<string, string>;
  modules: Record<string, CommonsModule | { json: string }>;
};

/** The script, or why the version has to have threads of its own, in words for its author. */
export type CommonsFinding = { script: CommonsScript } | { kept: KeptReason; detail: string };
