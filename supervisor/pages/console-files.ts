/** Serves the gateway's own files for browsers, the console and the page bridge: read once, kept in memory. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Place } from '../http/access/places.ts';
import { answerError } from '../http/answers.ts';
import { Asset, type Encoding, serveAsset } from '../http/assets.ts';
import { consoleFile, documentFile } from '../tree/entry-points.ts';
import { GATEWAY_ICON, madeAsset } from './page-icons.ts';
import { pagePolicy } from './page-policy.ts';

const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  md: 'text/markdown; charset=utf-8',
};

type OwnFile = { type: string; etag: string; bytes: Record<Encoding, Buffer> };

const ENCODINGS: readonly Encoding[] = ['br', 'gzip'];
/** The build names these by what is in them. */
const PARTS = '_console/part-';

export class ConsoleFiles {
  readonly #log: Logger;
  readonly #pathOf: (name: string) => string;
  readonly #files = new Map<string, Promise<OwnFile>>();

  constructor(log: Logger, pathOf: (name: string) => string = consoleFile) {
    this.#log = log;
    this.#pathOf = pathOf;
  }

  /** The icon of the gateway. */
  async serveIcon(exchange: Exchange, place: Place): Promise<void> {
    await this.#answer(exchange, place, async (policy) => sendMade(exchange, 'image/svg+xml', GATEWAY_ICON, policy));
  }

  /** Answers with a document of the package, or a picture in one; `NOT_FOUND` where an installation has none. */
  async serveDocument(exchange: Exchange, place: Place, name: string): Promise<void> {
    const content = await readFile(documentFile(name)).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOENT' ? new SvcError('NOT_FOUND', 'There is no such document.') : error;
    });
    await this.#answer(exchange, place, async (policy) => sendMade(exchange, typeOf(name), content, policy));
  }

  /** Answers with one of the files that are built. */
  async serve(exchange: Exchange, place: Place, name: string): Promise<void> {
    await this.#answer(exchange, place, async (policy) => {
      const { type, etag, bytes } = await this.#file(name);
      const cacheControl = name.startsWith(PARTS) ? 'public, max-age=31536000, immutable' : 'no-cache';
      const asset = new Asset(type, etag, ENCODINGS, { ...policy, 'cache-control': cacheControl });
      await serveAsset(exchange, asset, async (encoding) => bytes[encoding]);
    });
  }

  /** Runs `send`, and answers its errors. */
  async #answer(exchange: Exchange, place: Place, send: (policy: Record<string, string>) => Promise<void>) {
    const policy = consolePolicy(place);
    try {
      await send(policy);
    } catch (error) {
      answerError(exchange, error, this.#log, policy);
    }
  }

  #file(name: string): Promise<OwnFile> {
    let file = this.#files.get(name);
    if (!file) {
      file = openFile(this.#pathOf(name));
      file.catch(() => this.#files.delete(name));
      this.#files.set(name, file);
    }
    return file;
  }
}

async function sendMade(exchange: Exchange, type: string, content: string | Buffer, policy: Record<string, string>) {
  const { asset, bytes } = madeAsset(type, content, { ...policy, 'cache-control': 'no-cache' });
  await serveAsset(exchange, asset, async () => bytes);
}

/** As that of pages, but that people sign in with passkeys, and that the console shows the pages of apps beside their conversations. */
function consolePolicy(place: Place): Record<string, string> {
  const ofPages = pagePolicy(place);
  const { 'permissions-policy': _, ...policy } = ofPages;
  if (place.kind !== 'console') return place.kind === 'shared' ? policy : ofPages;
  const pages = place.origin.replace('://', '://*.');
  const name = 'content-security-policy';
  return { ...policy, [name]: `${policy[name]}; frame-src 'self' ${pages}` };
}

async function openFile(path: string): Promise<OwnFile> {
  const files = Promise.all([readFile(path), readFile(`${path}.br`), readFile(`${path}.gz`)]);
  const [identity, br, gzip] = await files.catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' && path.includes('/_console/')
      ? new SvcError('NOT_FOUND', 'The console has no such file.')
      : error;
  });
  const etag = `"${createHash('sha256').update(identity).digest('base64url').slice(0, 32)}"`;
  return { type: typeOf(path), etag, bytes: { identity, br, gzip } };
}

function typeOf(path: string): string {
  return TYPES[path.slice(path.lastIndexOf('.') + 1) as keyof typeof TYPES];
}
