/** Reads the `app.json` of versions on request and caches it in memory. */
import { readFile } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { isMissing } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import { ReadCache } from '../pages/read-cache.ts';

/** A manifest and how long its text was. */
type ManifestText = { manifest: Manifest; chars: number };

export class Manifests {
  readonly #layout: Layout;
  readonly #cache = new ReadCache<ManifestText>(LIMITS.manifestCacheChars, ({ chars }) => chars);

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  /** Rejects with `INVALID_MANIFEST`, status 500: the version was whole when it was stored. */
  async get(id: string, versionId: string): Promise<Manifest> {
    // A version's files never change, and its id is never given again.
    const { manifest } = await this.#cache.get(`${id}/${versionId}`, () => this.#read(id, versionId));
    return manifest;
  }

  async #read(id: string, versionId: string): Promise<ManifestText> {
    try {
      const text = await readFile(this.#layout.app(id).version(versionId).manifest, 'utf8');
      const value = JSON.parse(text) as Partial<Manifest>;
      return { manifest: { queries: [], actions: [], ...value } as Manifest, chars: text.length };
    } catch (error) {
      if (!(error instanceof SyntaxError) && !isMissing(error)) throw error;
      throw new SvcError('INVALID_MANIFEST', `The app.json of "${id}" cannot be read; upload the app again.`, {
        status: 500,
        cause: error,
      });
    }
  }
}
