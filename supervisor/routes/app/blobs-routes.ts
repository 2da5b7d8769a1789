/**
 * Serves files of apps and drafts over HTTP: uploads that stream to disk, downloads with ranges (specification,
 * "Files of apps").
 */
import type { FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { deleteFile, downloadFile, listFiles, storeFile } from '../../../protocol/routes/apps/files-rows.ts';
import { type BlobRecord, isBlobCursor, isMediaType, UNTYPED } from '../../../storage/blob-files.ts';
import { demandSomeAction } from '../../dispatch/roles.ts';
import type { Scope } from '../../dispatch/scope.ts';
import { type Exchange, PRIVATE, type ResponseHeaders } from '../../edge/edge.ts';
import { declaredLength } from '../../edge/framing.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import type { Place } from '../../http/access/places.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { isSingleRange, noneMatch, parseRange, rangeApplies } from '../../http/assets.ts';
import type { Route } from '../../http/router.ts';
import { goneSignal, sendStream } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { refuse, scopeOf } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

const CHUNK_BYTES = 128 * 1024;
/** So much is answered as a whole. */
const SMALL_BYTES = 64 * 1024;

/** Types that a browser may show in a tab: not those with scripts, such as HTML, SVG and other XML. */
const INLINE = /^(?:(?:image|audio|video|text)\/(?![^;]*(?:html|xml|xsl|svg))[^;]+|application\/pdf)\s*(?:;|$)/i;
/** A page of the app could load these as a script, despite the disposition. */
const SCRIPT = /^(?:application|text)\/(?:x-)?(?:java|ecma|live|j)script[\d.]*\s*(?:;|$)/i;
const PDF = /^application\/pdf\s*(?:;|$)/i;
const PASSIVE = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'";

export function blobRoutes({ scopes, blobs, log }: Services): Route[] {
  return [
    ...serve(listFiles, async ({ params, query }) => {
      const { sort: order = 'newest', prefix = '', after = null, limit = LIMITS.listRows } = query;
      if (after !== null && !isBlobCursor(after)) refuse('after', '"after" must be the "next" of the page before.');
      const { key } = await scopeOf(scopes, params);
      const [page, usage] = await Promise.all([blobs.list(key, { order, prefix, after, limit }), blobs.usage(key)]);
      return { ...page, usage };
    }),
    ...serveRaw(storeFile, async (exchange, params, caller) => {
      const body = exchange.streamBody(LIMITS.blobBytes, LIMITS.uploadTimeoutMs);
      try {
        const type = exchange.header('content-type') ?? UNTYPED;
        if (!isMediaType(type))
          refuse('content-type', 'The content-type must be a media type, such as image/png, of printable ASCII.');
        const scope = await scopeOf(scopes, params);
        await permitFiles(scope, caller);
        const { key } = scope;
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const permit = () => demand(caller, 'write', key);
        const record = await blobs.store(key, body, type, { expected: declaredLength(exchange.headers), permit });
        answerJson(exchange, 201, record, NO_STORE);
      } finally {
        body.destroy();
      }
    }),
    ...serveRaw(downloadFile, async (exchange, params, _caller, place) => {
      const { key } = await scopeOf(scopes, params);
      const { record, file } = await blobs.open(key, params.sha256 ?? '');
      try {
        await answerBlob(exchange, record, file, place, log);
      } finally {
        await file.close();
      }
    }),
    ...serve(deleteFile, async ({ params, caller }) => {
      const { sha256 } = params;
      const scope = await scopeOf(scopes, params);
      await permitFiles(scope, caller);
      await blobs.remove(scope.key, sha256);
      return { sha256, deleted: true };
    }),
  ];
}

async function answerBlob(
  exchange: Exchange,
  { sha256, size, type }: BlobRecord,
  file: FileHandle,
  place: Place,
  log: Logger,
): Promise<void> {
  const etag = `"${sha256}"`;
  const headers = { ...presentation(type, place), etag };
  if (noneMatch(exchange.header('if-none-match'), etag)) {
    exchange.send(304, headers, '');
    return;
  }
  const range = exchange.method === 'GET' ? exchange.header('range') : undefined;
  const isRanged = range !== undefined && isSingleRange(range) && rangeApplies(exchange.header('if-range'), etag);
  const part = isRanged ? parseRange(range, size) : undefined;
  if (part === 'unsatisfiable') {
    throw new SvcError('RANGE_NOT_SATISFIABLE', `The file has ${size} bytes; the range lies outside it.`, {
      headers: { 'content-range': `bytes */${size}` },
    });
  }
  const { first, last } = part ?? { first: 0, last: size - 1 };
  const status = part === undefined ? 200 : 206;
  const all = part === undefined ? headers : { ...headers, 'content-range': `bytes ${first}-${last}/${size}` };
  const length = last - first + 1;
  if (length <= SMALL_BYTES) {
    const bytes = Buffer.alloc(length);
    await file.read(bytes, 0, length, first);
    exchange.send(status, all, bytes);
    return;
  }
  await sendStream(exchange, partsOf(file, first, last + 1), all, log, goneSignal(exchange), { status, length });
}

/**
 * Each part is in the memory of the one before it, which the socket has taken whole by then: a part is more than what a socket says
 * that it has taken when it only keeps it. New memory for each would outrun the garbage collection.
 */
async function* partsOf(file: FileHandle, from: number, to: number): AsyncGenerator<Buffer> {
  const memory = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (let at = from; at < to; at += CHUNK_BYTES) {
    const wanted = Math.min(CHUNK_BYTES, to - at);
    const { bytesRead } = await file.read(memory, 0, wanted, at);
    if (bytesRead < wanted) throw new Error('The file is shorter than it was.');
    yield memory.subarray(0, wanted);
  }
}

/** Rejects with `FORBIDDEN` for who has a role of the app that changes nothing. */
async function permitFiles(scope: Scope, caller: Caller): Promise<void> {
  const shown = caller.shown(scope.key);
  if (shown.roles !== undefined) demandSomeAction(await scope.get(), shown);
}

/**
 * The uploader chooses its type, so it must never run as a script of the app: in a tab or frame it is a download or has no
 * origin, and a page cannot load it as a script. PDF viewers need an origin, and give scripts no page.
 */
function presentation(type: string, { frameAncestors }: Place): ResponseHeaders {
  const shown = SCRIPT.test(type) ? 'text/plain; charset=utf-8' : type;
  const policy = `${PASSIVE}; ${PDF.test(type) ? "object-src 'self'" : 'sandbox'}; frame-ancestors ${frameAncestors}`;
  return {
    'content-type': shown,
    'content-disposition': INLINE.test(shown) ? 'inline' : 'attachment',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-cache',
    ...PRIVATE,
  };
}
