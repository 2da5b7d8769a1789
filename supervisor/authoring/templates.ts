/**
 * Lists templates: those of the gateway, and those of a catalog that it fetches at intervals (specification,
 * "Changes without an editor"). If a fetch fails, the list stays.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { RemoteTemplate, TemplateRow } from '../../protocol/answer-types.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { count, formatted, listOf, matching, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { joinSignals } from '../../protocol/signals.ts';
import type { LayOutJob } from '../../protocol/wire/jobs.ts';
import { exists, mkdirDurable, readJson, writeFileAtomic } from '../../storage/files/atomic-file.ts';

type TemplatesOptions = {
  /** The folder of those that come with the gateway, one app folder each. */
  folder: string;
  /** `templates-cache/`. */
  cacheDir: string;
  /** Where the catalog is fetched from; null when there is none. */
  url: string | null;
  log: Logger;
  /** How long a fetch may take; `LIMITS.templateFetchMs` when absent. */
  fetchMs?: number;
};

const WORDS = { type: 'string', cut: LIMITS.textChars } as const;
const TEMPLATE = object(
  {
    id: formatted('app id', 'the id of an app'),
    name: { ...WORDS, minLength: 1 },
    url: text,
    sha256: matching(/^[0-9a-f]{64}$/, 'a SHA-256'),
  },
  { description: WORDS, version: WORDS, queries: count, actions: count, automations: count },
);
const CATALOG = shape(object({ templates: { ...listOf(TEMPLATE), maxItems: LIMITS.templates } }));

export class Templates {
  readonly #options: TemplatesOptions;
  readonly #stopping = new AbortController();
  #bundled: Promise<TemplateRow[]> | undefined;
  #refreshing: Promise<void> = Promise.resolve();

  constructor(options: TemplatesOptions) {
    this.#options = options;
  }

  /** Starts fetching the catalog in the background. */
  open(): void {
    const { url, log } = this.#options;
    if (url === null) return;
    this.#refreshing = this.#refresh(url).catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) log.warn({ err: error }, 'The catalog of templates could not be fetched.');
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#refreshing;
  }

  /** Bundled templates first; they win over a remote one with the same id. */
  async list(): Promise<TemplateRow[]> {
    return (await this.#all()).map((row) => {
      const { url: _, sha256: __, ...shown } = row as RemoteTemplate;
      return shown;
    });
  }

  /** Where the template's files are. Rejects with `UNKNOWN_TEMPLATE`, or `TEMPLATE_FAILED` when it cannot be fetched. */
  async source(id: string): Promise<{ row: TemplateRow; source: LayOutJob['source'] }> {
    const all = await this.#all();
    const row = all.find((template) => template.id === id);
    if (row === undefined) {
      const known = all.map((template) => template.id).join(', ');
      throw new SvcError('UNKNOWN_TEMPLATE', `There is no template "${id.slice(0, 80)}"; there are: ${known}.`, {
        path: 'templateId',
      });
    }
    if (isRemote(row)) return { row, source: { archive: await this.#archive(row) } };
    return { row, source: { template: join(this.#options.folder, id) } };
  }

  async #all(): Promise<(TemplateRow | RemoteTemplate)[]> {
    this.#bundled ??= this.#readBundled();
    const bundled = await this.#bundled;
    const ids = new Set(bundled.map(({ id }) => id));
    return [...bundled, ...(await this.#cached()).filter(({ id }) => !ids.has(id))];
  }

  async #readBundled(): Promise<TemplateRow[]> {
    const { folder } = this.#options;
    const ids = (await readdir(folder)).filter(isAppId).sort();
    return Promise.all(ids.map((id) => bundledRow(folder, id)));
  }

  async #cached(): Promise<RemoteTemplate[]> {
    const { url } = this.#options;
    if (url === null) return [];
    return readCatalog(await readJson(this.#catalogFile).catch(() => undefined), url) ?? [];
  }

  get #catalogFile(): string {
    return join(this.#options.cacheDir, 'catalog.json');
  }

  async #refresh(url: string): Promise<void> {
    const bytes = await this.#fetch(url, LIMITS.templateCatalogBytes);
    const templates = readCatalog(JSON.parse(bytes.toString('utf8')), url);
    if (templates === null)
      throw new Error('it is not a catalog: { "templates": [{ "id", "name", "url", "sha256" }] }');
    await mkdirDurable(this.#options.cacheDir);
    await writeFileAtomic(this.#catalogFile, `${JSON.stringify({ templates }, null, 2)}\n`);
    this.#options.log.info({ templates: templates.length }, 'Fetched the catalog of templates.');
  }

  /** The template's archive, fetched once; its content is what the catalog says. */
  async #archive({ id, url, sha256 }: RemoteTemplate): Promise<string> {
    const path = join(this.#options.cacheDir, `${id}-${sha256.slice(0, 16)}.tgz`);
    if ((await exists(path)) && hashOf(await readFile(path)) === sha256) return path;
    let bytes: Buffer;
    try {
      bytes = await this.#fetch(url, LIMITS.templateArchiveBytes);
    } catch (error) {
      throw new SvcError('TEMPLATE_FAILED', `The template "${id}" cannot be fetched; try again later.`, {
        cause: error,
      });
    }
    if (hashOf(bytes) !== sha256)
      throw new SvcError('TEMPLATE_FAILED', `The template "${id}" does not match the checksum in its catalog.`);
    await mkdirDurable(this.#options.cacheDir);
    await writeFileAtomic(path, bytes);
    return path;
  }

  /** Redirects are followed too, `fetch` takes none to anything but `http` and `https`. */
  async #fetch(url: string, mostBytes: number): Promise<Buffer> {
    const { signal, release } = joinSignals([this.#stopping.signal], this.#options.fetchMs ?? LIMITS.templateFetchMs);
    try {
      return await fetchBytes(url, mostBytes, signal);
    } finally {
      release();
    }
  }
}

async function fetchBytes(url: string, mostBytes: number, signal: AbortSignal): Promise<Buffer> {
  const response = await fetch(url, { signal });
  if (!response.ok || response.body === null) {
    await response.body?.cancel();
    throw new Error(`the server answered ${response.status}`);
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > mostBytes) throw new Error(`it has more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function bundledRow(folder: string, id: string): Promise<TemplateRow> {
  const manifest = JSON.parse(await readFile(join(folder, id, 'app.json'), 'utf8')) as Record<string, unknown>;
  const automations = await readdir(join(folder, id, 'automations')).catch(() => []);
  return {
    id,
    name: String(manifest.name),
    description: String(manifest.description ?? ''),
    version: String(manifest.version),
    source: 'bundled',
    queries: lengthOf(manifest.queries),
    actions: lengthOf(manifest.actions),
    automations: automations.length,
  };
}

/** Null when it is no catalog; entries that are not valid are left out. Their addresses may be relative to `catalogUrl`. */
function readCatalog(value: unknown, catalogUrl: string): RemoteTemplate[] | null {
  const rows = CATALOG.part(value)?.templates.flatMap(
    ({ description = '', version = '', ...row }): RemoteTemplate[] => {
      const { queries = 0, actions = 0, automations = 0 } = row;
      const url = webAddress(row.url, catalogUrl);
      return url === null
        ? []
        : [{ ...row, description, version, source: 'remote', queries, actions, automations, url }];
    },
  );
  return rows === undefined ? null : [...new Map(rows.map((row) => [row.id, row])).values()];
}

/** Null for anything that is not fetched from a server, such as `data:` and `file:`. */
function webAddress(text: string, base: string): string | null {
  if (text === '' || !URL.canParse(text, base)) return null;
  const { protocol, href } = new URL(text, base);
  return protocol === 'http:' || protocol === 'https:' ? href : null;
}

function isRemote(row: TemplateRow | RemoteTemplate): row is RemoteTemplate {
  return 'sha256' in row;
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
