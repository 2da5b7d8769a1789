/** Serves static files of the apps under `/svc/<id>/` (specification, "Static files"). */
import { constants } from 'node:fs';
import { open, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { APP_ICON, DRAWN_ICONS, tileOf } from '../../protocol/http/icons.ts';
import { STATIC_TYPES } from '../../protocol/http/media-types.ts';
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { StaticEntry, VersionSummary } from '../../protocol/manifest.ts';
import { staticType } from '../../protocol/rules/static-files.ts';
import { isMissing } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import { readSettings } from '../../storage/settings.ts';
import { type Exchange, errorAnswer, type ResponseHeaders } from '../edge/edge.ts';
import { isNavigation } from '../http/access/fetch-metadata.ts';
import type { Place } from '../http/access/places.ts';
import { Asset, type Encoding, serveAsset } from '../http/assets.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { sendErrorPage } from './error-page.ts';
import { ICON, madeAsset } from './page-icons.ts';
import { pagePolicy } from './page-policy.ts';
import { ReadCache } from './read-cache.ts';
import { WEB_MANIFEST, webManifest } from './web-manifest.ts';

/** The version whose files are asked for. `id` is the app's, or a draft's key; `app` has its files and settings. */
export type PageVersion = { id: string; app: AppPaths; summary: VersionSummary };

/** `shown` is what was answered last, and under which policy: who may embed a page hardly ever changes. */
type Page = StaticEntry & {
  encodings: readonly Encoding[];
  shown: { asset: Asset; frameAncestors: string; isPublic: boolean; kept: boolean } | null;
};
type PageIndex = { pages: ReadonlyMap<string, Page>; bytes: number };

const EXTENSION = { br: '.br', gzip: '.gz', identity: '' } as const;
/** About what the headers of one file take once they were sent. */
const HEAD_BYTES = 2048;
const NOT_KEPT = 'no-cache';
const HOME = 'index.html';
/** Visitors get no files of a named version. */
const IMMUTABLE = 'private, max-age=31536000, immutable';

/** An error on the pages' surface: a page for a person, else the one error shape. `app` is whose page was asked for, where that is known. */
export function sendPageError(exchange: Exchange, place: Place, error: SvcError, app?: string): void {
  if (isNavigation(exchange)) {
    sendErrorPage(exchange, place, error, app);
    return;
  }
  const { status, headers, body } = errorAnswer(error);
  exchange.send(status, { ...headers, ...pagePolicy(place), 'cache-control': 'no-store' }, body);
}

export class Pages {
  readonly #log: Logger;
  readonly #drawTile: Jobs['drawTile'];
  readonly #files = new ReadCache<Buffer>(LIMITS.staticCacheBytes, (bytes) => bytes.length);
  /** The damaged files that were logged. */
  readonly #logged = new Set<string>();
  readonly #indexes = new ReadCache<PageIndex>(LIMITS.staticIndexBytes, (index) => index.bytes);

  constructor(log: Logger, drawTile: Jobs['drawTile']) {
    this.#log = log;
    this.#drawTile = drawTile;
  }

  /**
   * Answers a GET or HEAD with a file of `version`. `rest` is the undecoded path after `/svc/<id>`, or after
   * `/svc/<id>/_v/<versionId>` with `pinned`: the address then names the version, so what it gives never changes.
   */
  async serve(exchange: Exchange, place: Place, version: PageVersion, rest: string, pinned = false): Promise<void> {
    try {
      if (rest === '') redirectToFolder(exchange, place);
      else await this.#serveFile(exchange, place, version, filePath(rest), pinned);
    } catch (error) {
      this.#fail(exchange, place, error);
    }
  }

  async #serveFile(exchange: Exchange, place: Place, version: PageVersion, path: string, pinned: boolean) {
    const index = await this.#index(version);
    const name = path === ICON && !index.pages.has(ICON) ? APP_ICON : path;
    const page = index.pages.get(name);
    if (!page && path === ICON) return sendMade(exchange, place, ['image/svg+xml', tileOf(appOfKey(version.id))]);
    if (!page && path === WEB_MANIFEST && index.pages.has(HOME))
      return this.#sendManifest(exchange, place, version, index);
    if (!page && isTile(path, version, index)) return this.#sendTile(exchange, place, version, path);
    if (!page) throw notFound();
    // A page carries the bridge, which is the gateway's and not the version's: it is looked at again even when pinned.
    const kept = pinned && !page.type.startsWith('text/html');
    return serveAsset(exchange, assetOf(page, place, kept), (encoding) => this.#bytes(version, page, name, encoding));
  }

  /** Drops what is kept of a retired version, or of all versions of an app that was removed. */
  forget(id: string, versionId?: string): void {
    const prefix = versionId === undefined ? `${id}/` : `${id}/${versionId}/`;
    this.#indexes.forget(prefix);
    this.#files.forget(prefix);
    for (const key of this.#logged) if (key.startsWith(prefix)) this.#logged.delete(key);
  }

  #bytes(version: PageVersion, page: Page, path: string, encoding: Encoding): Promise<Buffer> {
    const name = path + EXTENSION[encoding];
    const key = `${version.id}/${version.summary.versionId}/${name}`;
    return this.#files.get(key, async () => {
      const isPrepared = page.prepared === true || encoding !== 'identity';
      const { code, staticDir } = version.app.version(version.summary.versionId);
      const bytes = await readPlainFile(isPrepared ? staticDir : code, name, sizeOf(page, encoding));
      if (bytes !== null) return bytes;
      throw this.#damaged(key, version, isPrepared ? `the copy ${name} that is served` : name);
    });
  }

  /** A file that is missing or has another size than the index says, which is logged once: its tag stands for other bytes. */
  #damaged(key: string, { id, summary: { versionId } }: PageVersion, what: string): SvcError {
    const message = `The version ${versionId} of "${id}" is damaged: ${what} is missing or has another size. Push the app again.`;
    if (!this.#logged.has(key)) this.#log.error({ app: id, version: versionId }, message);
    this.#logged.add(key);
    return new SvcError('STORE_DAMAGED', message);
  }

  #index({ id, app, summary: { versionId } }: PageVersion): Promise<PageIndex> {
    return this.#indexes.get(`${id}/${versionId}/`, async () => {
      const bytes = await readFile(app.version(versionId).static);
      const entries = JSON.parse(bytes.toString()) as Record<string, StaticEntry>;
      const pages = new Map(Object.entries(entries).map(([path, entry]) => [path, pageOf(entry)]));
      return { pages, bytes: bytes.length + pages.size * HEAD_BYTES };
    });
  }

  /** Of an app with a page that brings none. */
  async #sendManifest(exchange: Exchange, place: Place, version: PageVersion, index: PageIndex): Promise<void> {
    const settings = await readSettings(version.app);
    const serves = (path: string) => index.pages.has(path) || isTile(path, version, index);
    const text = webManifest({ version: version.summary, settings, place, serves });
    await sendMade(exchange, place, [STATIC_TYPES['.webmanifest'] as string, text]);
  }

  /** It is the same for every version, and hardly anybody asks for it: so it is drawn then, and kept like a file. */
  async #sendTile(exchange: Exchange, place: Place, { id }: PageVersion, name: string): Promise<void> {
    const app = appOfKey(id);
    const png = await this.#files.get(`${id}/tile/${name}`, async () =>
      Buffer.from(await this.#drawTile({ app, name })),
    );
    await sendMade(exchange, place, ['image/png', png]);
  }

  #fail(exchange: Exchange, place: Place, error: unknown): void {
    if (!(error instanceof SvcError))
      this.#log.error({ err: error, path: exchange.path }, 'A static file could not be read.');
    const unread = () => new SvcError('INTERNAL', 'The file could not be read; the log has the details.');
    sendPageError(exchange, place, error instanceof SvcError ? error : unread());
  }
}

/** Whether this is an icon that shows the app's initial: it has none of its own, or one that cannot be drawn. */
function isTile(path: string, { summary: { warnings = [] } }: PageVersion, { pages }: PageIndex): boolean {
  const isUndrawn = !pages.has(APP_ICON) || warnings.some(({ keyword }) => keyword === 'icon');
  return isUndrawn && pages.has(HOME) && DRAWN_ICONS.some(({ name }) => name === path);
}

/** What an app serves that it has no file of. */
async function sendMade(
  exchange: Exchange,
  place: Place,
  [type, content]: [type: string, content: string | Buffer],
): Promise<void> {
  const { asset, bytes } = madeAsset(type, content, { ...pagePolicy(place), 'cache-control': NOT_KEPT });
  await serveAsset(exchange, asset, async () => bytes);
}

function pageOf(entry: StaticEntry): Page {
  const encodings: Encoding[] = [];
  if (entry.br !== undefined) encodings.push('br');
  if (entry.gzip !== undefined) encodings.push('gzip');
  return { ...entry, encodings, shown: null };
}

function assetOf(page: Page, place: Place, kept: boolean): Asset {
  const { shown, type, etag, encodings, scriptHashes } = page;
  const { frameAncestors, isPublic } = place;
  if (shown?.frameAncestors === frameAncestors && shown.isPublic === isPublic && shown.kept === kept)
    return shown.asset;
  const headers = { ...pagePolicy(place, scriptHashes), 'cache-control': kept ? IMMUTABLE : NOT_KEPT };
  const asset = new Asset(type, etag, encodings, headers);
  page.shown = { asset, frameAncestors, isPublic, kept };
  return asset;
}

/** Sends a browser elsewhere, for this time only. */
export function redirect(exchange: Exchange, place: Place, location: string, headers: ResponseHeaders = {}): void {
  exchange.send(303, { ...pagePolicy(place), ...headers, location, 'cache-control': 'no-store' }, '');
}

/** Relative addresses in a page only work below the folder. */
export function redirectToFolder(exchange: Exchange, place: Place): void {
  const query = exchange.query === '' ? '' : `?${exchange.query.replace(/[^!-~]/g, encodeURIComponent)}`;
  exchange.send(308, { ...pagePolicy(place), location: `${exchange.path}/${query}` }, '');
}

/** The file that an undecoded path asks for. The index lists what may be served; these checks hold even if it is wrong. */
function filePath(rest: string): string {
  let path: string;
  try {
    path = decodeURIComponent(rest.slice(1));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The address has a malformed percent-encoding.');
  }
  if (path.includes('\0')) throw new SvcError('BAD_REQUEST', 'The address has a NUL in it.');
  if (path === '' || path.endsWith('/')) path += HOME;
  if (staticType(path) === undefined) throw notFound();
  return path;
}

function notFound(): SvcError {
  return new SvcError('NOT_FOUND', 'The app serves no file at this address.');
}

/** As the index has it. */
function sizeOf({ bytes, br, gzip }: Page, encoding: Encoding): number | undefined {
  return encoding === 'identity' ? bytes : encoding === 'br' ? br : gzip;
}

/**
 * Reads `root/name`, without following a symbolic link on the way from `root`; null where it is missing or has not that many bytes.
 * What is no plain file is not found.
 */
async function readPlainFile(root: string, name: string, size: number | undefined): Promise<Buffer | null> {
  try {
    const [realRoot, real] = await Promise.all([realpath(root), realpath(join(root, name))]);
    if (real !== join(realRoot, name)) throw notFound();
    const file = await open(real, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
    try {
      const found = await file.stat();
      if (!found.isFile()) throw notFound();
      return found.size === size ? await file.readFile() : null;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
