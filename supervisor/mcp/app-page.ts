/**
 * Offers the page of an app to hosts of MCP Apps: a resource, the tool that opens it, and which tools the page itself may call
 * (specification, "MCP Apps"). Clients that do not know the extension get none of it.
 */
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { fileUri, openTool, PAGE_TYPE, pageUri, UI_EXTENSION } from '../../protocol/http/mcp-app.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { PageDocument, VersionSummary } from '../../protocol/manifest.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import type { Layout } from '../../storage/layout.ts';
import { readSettings } from '../../storage/settings.ts';
import type { Blobs } from '../blobs.ts';
import { consoleFile } from '../tree/entry-points.ts';
import type { McpTool } from './definitions.ts';
import type { McpContent, McpResource } from './mcp-resources.ts';

type McpPagesOptions = { layout: Layout; blobs: Blobs; log: Logger };
/** `home` is where the app's own pages are, for a browser; undefined where nobody can say. */
type Shown = { app: string; key: string; version: VersionSummary; home: string | undefined };
type WholePage = Exclude<PageDocument, { faults: unknown }>;

const FILE_NAME = /^[0-9a-f]{64}$/;
const BORDER = { ui: { prefersBorder: true } };

/** Whether a client with these capabilities shows pages. */
export function showsPages(capabilities: unknown): boolean {
  const extensions = isRecord(capabilities) ? capabilities.extensions : undefined;
  const ui = isRecord(extensions) ? extensions[UI_EXTENSION] : undefined;
  const types = isRecord(ui) ? ui.mimeTypes : undefined;
  return Array.isArray(types) && types.includes(PAGE_TYPE);
}

/** The page of one app for one caller. */
export type AppPage = {
  /** Opens the page. */
  tool: McpTool;
  resource: McpResource;
  /** The tool as hosts are shown it: whether its result shows the page, and whether the page may call it. */
  marked(tool: McpTool, marks: { opensPage: boolean; forPage: boolean }): McpTool;
  opened: string;
  /** Null for a resource that is no part of it. Rejects with `STORE_DAMAGED`, `UNKNOWN_BLOB`, `PAYLOAD_TOO_LARGE`. */
  read(uri: string): Promise<McpContent | null>;
};

export class McpPages {
  readonly #options: McpPagesOptions;
  #bridge: Promise<Buffer> | null = null;

  constructor(options: McpPagesOptions) {
    this.#options = options;
  }

  /** Null for a version whose page is no document. */
  of(shown: Shown): AppPage | null {
    const { app, version } = shown;
    const { page, name } = version;
    if (page === undefined || 'faults' in page) return null;
    const uri = pageUri(app);
    return {
      tool: {
        name: openTool(app),
        description: `Show the page of "${name}" to the person, to look at and to use.${version.description ? ` ${version.description}` : ''}`,
        inputSchema: { type: 'object', properties: {}, additionalProperties: false },
        annotations: { readOnlyHint: true },
        _meta: { ui: { resourceUri: uri, visibility: ['model'] } },
      },
      resource: {
        uri,
        name: 'page',
        description: `The page of "${name}".`,
        mimeType: PAGE_TYPE,
        // By this hosts hear that they keep an old one.
        _meta: { ...BORDER, 'svc/sha256': page.sha256 },
      },
      opened: `The person sees the page of "${name}". It shows the data of the app, and what changes.`,
      marked: (tool, { opensPage, forPage }) => ({
        ...tool,
        _meta: { ui: { ...(opensPage && { resourceUri: uri }), visibility: forPage ? ['model', 'app'] : ['model'] } },
      }),
      read: async (named) => {
        if (named === uri) return { mimeType: PAGE_TYPE, text: await this.#document(shown, page), _meta: BORDER };
        const prefix = fileUri(app, '');
        const file = named.startsWith(prefix) ? named.slice(prefix.length) : '';
        return FILE_NAME.test(file) ? await this.#file(shown.key, file) : null;
      },
    };
  }

  async #document({ app, key, version, home }: Shown, { bytes, bridgeAt }: WholePage): Promise<string> {
    const { layout, log } = this.#options;
    const path = layout.app(key).version(version.versionId).page;
    const [document, bridge, settings] = await Promise.all([
      readFile(path).catch(() => null),
      this.#readBridge(),
      readSettings(layout.app(key)).catch(() => ({})),
    ]);
    if (document?.length !== bytes) {
      const message = `The version ${version.versionId} of "${app}" is damaged: the document of its page is missing or has another size. Push the app again.`;
      log.error({ app, version: version.versionId }, message);
      throw new SvcError('STORE_DAMAGED', message);
    }
    const attributes = [['settings', JSON.stringify(settings)], ...(home === undefined ? [] : [['home', home]])];
    const written = attributes.map(([name, value = '']) => ` data-${name}="${attributeText(value)}"`).join('');
    const [before, after] = [document.subarray(0, bridgeAt), document.subarray(bridgeAt + 1)];
    return `${before}${written}>${bridge}${after}`;
  }

  /** Built once, so read once. */
  #readBridge(): Promise<Buffer> {
    this.#bridge ??= readFile(consoleFile('view.js'));
    return this.#bridge;
  }

  async #file(key: string, name: string): Promise<McpContent> {
    const { record, file } = await this.#options.blobs.open(key, name);
    try {
      if (record.size > LIMITS.mcpFileBytes) {
        const message = `The file has ${record.size} bytes, and ${LIMITS.mcpFileBytes} at most are read as a resource.`;
        throw new SvcError('PAYLOAD_TOO_LARGE', message);
      }
      return { mimeType: record.type, blob: (await file.readFile()).toString('base64') };
    } finally {
      await file.close();
    }
  }
}

function attributeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
}
