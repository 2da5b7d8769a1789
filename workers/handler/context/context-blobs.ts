/**
 * Gives handlers the files of their app: reads them from the disk, and asks the supervisor to store and delete them
 * (specification, "Files of apps").
 */
import { isAnyArrayBuffer } from 'node:util/types';
import { type ErrorBody, errorFromBody } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Frame, type FrameOf, Kind } from '../../../protocol/wire/frames.ts';
import {
  type BlobFolders,
  type BlobRecord,
  isMediaType,
  openBlob,
  statBlob,
  UNTYPED,
} from '../../../storage/blob-files.ts';
import type { HandlerCall } from '../calls.ts';
import { effect } from '../effects.ts';
import { AskError } from '../handler-errors.ts';

/**
 * `ctx.blobs` of one call. `get` and `stat` resolve to null for a missing file, `delete` to false. A `put` or `delete` that
 * fails and that the handler neither awaits nor catches fails the call, whether that happened before the handler returned or
 * after; what it returned is then not answered (specification, "Results of handlers").
 */
export type BlobsOfContext = {
  readonly put: (content: unknown, options?: { type?: unknown } | null) => Promise<BlobRecord>;
  readonly get: (sha256: string) => Promise<Uint8Array | null>;
  readonly stat: (sha256: string) => Promise<BlobRecord | null>;
  readonly delete: (sha256: unknown) => Promise<boolean>;
};

// App code could replace them.
const { parse } = JSON;
const { isView } = ArrayBuffer;
const { freeze } = Object;

/** As the calls of a thread use them. */
export type BlobsOfCalls = Pick<ActorBlobs, 'of' | 'isPending' | 'finished'>;

/** Shared by all calls of a thread. Sends one request at a time, so that little data waits between the processes. */
export class ActorBlobs {
  readonly #folders: BlobFolders;
  readonly #send: (frame: Frame) => void;
  /** Settles with the last request. */
  #last: Promise<unknown> = Promise.resolve();
  #lastAsk = 0;
  #answered: ((frame: FrameOf<'blobDone'>) => void) | null = null;
  /** The unanswered requests of each call. */
  readonly #open = new Map<HandlerCall, Set<Promise<unknown>>>();

  constructor(folders: BlobFolders, send: (frame: Frame) => void) {
    this.#folders = folders;
    this.#send = send;
  }

  /** `mayWrite` is false for queries: they may run twice, or not at all. */
  of(call: HandlerCall, mayWrite: boolean): BlobsOfContext {
    return freeze({
      put: (content: unknown, options?: { type?: unknown } | null) =>
        this.#write(call, async () => {
          checkWriter(mayWrite, 'put');
          const bytes = bytesOf(content);
          const type = options?.type ?? (typeof content === 'string' ? 'text/plain; charset=utf-8' : UNTYPED);
          if (!isMediaType(type))
            throw badRequest('The type of ctx.blobs.put must be a media type, such as image/png.');
          return (await this.#ask(call, 'put', type, bytes)) as BlobRecord;
        }),
      get: (sha256: string) => {
        effect();
        return this.#get(sha256);
      },
      stat: (sha256: string) => {
        effect();
        return statBlob(this.#folders, sha256);
      },
      delete: (sha256: unknown) =>
        this.#write(call, async () => {
          checkWriter(mayWrite, 'delete');
          return (await this.#ask(call, 'delete', String(sha256).slice(0, LIMITS.textChars), NO_BYTES)) as boolean;
        }),
    });
  }

  answered(frame: FrameOf<'blobDone'>): void {
    this.#answered?.(frame);
  }

  isPending(call: HandlerCall): boolean {
    return this.#open.has(call);
  }

  /** Resolves when the call's requests are answered or have failed. */
  async finished(call: HandlerCall): Promise<void> {
    for (let open = this.#open.get(call); open !== undefined; open = this.#open.get(call))
      await Promise.allSettled(open);
  }

  async #get(sha256: string): Promise<Uint8Array | null> {
    const found = await openBlob(this.#folders, sha256);
    if (found === null) return null;
    const { file, record } = found;
    try {
      if (record.size > LIMITS.blobHandlerBytes) throw tooLarge('get', `The file has ${record.size} bytes`);
      return await file.readFile();
    } finally {
      await file.close();
    }
  }

  /** The promise of a write for the handler. Its failure is noted before anybody who waits for the write can go on. */
  #write<T>(call: HandlerCall, work: () => Promise<T>): Promise<T> {
    const open = this.#open.get(call) ?? new Set();
    const writing = work();
    this.#open.set(call, open.add(writing));
    const done = (): void => {
      open.delete(writing);
      if (open.size === 0) this.#open.delete(call);
    };
    const written = new Promise<T>((resolve, reject) => {
      writing.then(
        (value) => {
          done();
          resolve(value);
        },
        (error: unknown) => {
          done();
          call.noteFailedWrite(error, written);
          reject(error as Error);
        },
      );
    });
    return written;
  }

  #ask(call: HandlerCall, verb: 'put' | 'delete', name: string, content: Uint8Array): Promise<unknown> {
    const asked = this.#last.then(() => this.#exchange(call, verb, name, content));
    this.#last = asked.catch(() => {});
    return asked;
  }

  async #exchange(call: HandlerCall, verb: 'put' | 'delete', name: string, content: Uint8Array): Promise<unknown> {
    call.assertWanted();
    const askId = ++this.#lastAsk;
    const answer = new Promise<FrameOf<'blobDone'>>((resolve) => {
      this.#answered = resolve;
    });
    this.#send([Kind.blob, askId, call.id, verb, name, content]);
    const [, , ok, body] = await answer;
    const value: unknown = parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
    if (!ok) throw errorFromBody(value as ErrorBody);
    return value;
  }
}

const NO_BYTES = new Uint8Array();

/** Throws `BAD_REQUEST` and `PAYLOAD_TOO_LARGE`. */
function bytesOf(content: unknown): Uint8Array {
  let bytes: Uint8Array;
  if (typeof content === 'string') bytes = Buffer.from(content);
  else if (isAnyArrayBuffer(content)) bytes = new Uint8Array(content);
  else if (isView(content)) bytes = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  else throw badRequest('ctx.blobs.put takes a text, a Uint8Array or an ArrayBuffer.');
  if (bytes.length > LIMITS.blobHandlerBytes) throw tooLarge('put', `There are ${bytes.length} bytes`);
  return bytes;
}

function checkWriter(mayWrite: boolean, verb: string): void {
  if (!mayWrite) throw badRequest(`A query changes nothing: ctx.blobs.${verb} is for actions and automations.`);
}

function badRequest(message: string): AskError {
  return new AskError({ code: 'BAD_REQUEST', message });
}

function tooLarge(verb: string, what: string): AskError {
  const most = LIMITS.blobHandlerBytes / 1024 ** 2;
  const message = `${what}; ctx.blobs.${verb} is for up to ${most} MiB. Larger files are for pages: svc.upload and _blobs/<sha256>.`;
  return new AskError({ code: 'PAYLOAD_TOO_LARGE', message });
}
