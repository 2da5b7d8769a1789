/**
 * Makes one document of an app's page, with everything that it loads, for hosts of MCP Apps: they show a page that they were given,
 * and let it load nothing (specification, "MCP Apps").
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE_FILE } from '../../../protocol/http/mcp-app.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest, PageDocument } from '../../../protocol/manifest.ts';
import type { VersionPaths } from '../../../storage/layout.ts';
import { writeNewFile } from '../content/files.ts';
import { headOffset } from '../content/html.ts';
import { Edits } from './edits.ts';
import { elementsOf, type PageElement } from './elements.ts';
import { attributeText, scriptJson, scriptText, styleText } from './escapes.ts';
import { PageFiles } from './page-files.ts';
import { PageModules } from './scripts.ts';
import { inlineStyles } from './styles.ts';

const KiB = 1024;
/** How many of the files of a document that is too large are named. */
const NAMED = 3;

/** Attributes that name one file which is shown. */
const SHOWN: Record<string, readonly string[]> = {
  audio: ['src'],
  feimage: ['href', 'xlink:href'],
  image: ['href', 'xlink:href'],
  img: ['src'],
  input: ['src'],
  source: ['src'],
  track: ['src'],
  use: ['href', 'xlink:href'],
  video: ['src', 'poster'],
};
/** What a page shows inside of itself, which hosts do not let it. */
const FRAMES: Record<string, string> = { embed: 'src', frame: 'src', iframe: 'src', object: 'data' };
/** Links that load nothing for the page itself. */
const DROPPED_LINKS = /\b(?:icon|apple-touch-icon|manifest|preload|modulepreload|prefetch|preconnect|dns-prefetch)\b/i;
const JAVASCRIPT = /^(?:text|application)\/(?:x-)?(?:java|ecma)script$/i;

/** Writes `staged.page`; `built` are files that take the place of the app's. Undefined for an app without a page. */
export function writePage(
  paths: string[],
  manifest: Manifest,
  staged: VersionPaths,
  built: ReadonlyMap<string, Buffer>,
): PageDocument | undefined {
  if (!paths.includes(PAGE_FILE)) return undefined;
  const read = (path: string) => built.get(path) ?? readFileSync(join(staged.code, path));
  const files = new PageFiles(manifest.id, [...paths, ...built.keys()], read);
  const { text, bridgeAt } = new PageWriter(files, manifest).write();
  const bytes = Buffer.from(text);
  checkSize(files, bytes.length);
  if (files.faults.length > 0) return { faults: files.faults };
  writeNewFile(staged.page, bytes);
  return { bytes: bytes.length, bridgeAt, sha256: createHash('sha256').update(bytes).digest('hex') };
}

function checkSize(files: PageFiles, bytes: number): void {
  const most = LIMITS.mcpPageBytes - LIMITS.mcpBridgeBytes;
  const all = Math.max(bytes, files.total);
  if (all <= most) return;
  const largest = [...files.sizes].sort(([, a], [, b]) => b - a).slice(0, NAMED);
  const named = largest.map(([path, size]) => `${path} ${inKiB(size)}`).join(', ');
  const message = `The page has ${inKiB(all)} with everything that it loads, and ${inKiB(most)} at most fit: ${named}.`;
  files.fault(largest[0]?.[0] ?? PAGE_FILE, message, 'maxLength');
}

function inKiB(bytes: number): string {
  return `${Math.ceil(bytes / KiB).toLocaleString('en')} KiB`;
}

class PageWriter {
  readonly #files: PageFiles;
  readonly #manifest: Manifest;
  readonly #html: string;
  readonly #edits: Edits;
  readonly #modules: PageModules;

  constructor(files: PageFiles, manifest: Manifest) {
    this.#files = files;
    this.#manifest = manifest;
    this.#html = files.text(PAGE_FILE);
    this.#edits = new Edits(this.#html);
    this.#modules = new PageModules(files);
  }

  /** `bridgeAt` is an offset in bytes. */
  write(): { text: string; bridgeAt: number } {
    const elements = elementsOf(this.#html);
    this.#files.base = elements.find(({ name }) => name === 'base')?.attributes.get('href') ?? '';
    // Modules of the whole page go by it.
    for (const element of elements)
      if (typeOf(element) === 'importmap' && element.isClosed) this.#modules.map(this.#textOf(element));
    for (const element of elements) if (!this.#files.isTooLarge) this.#element(element);
    const definitions = this.#modules.definitions();
    const described = attributeText(JSON.stringify({ ...this.#manifest, app: this.#manifest.id }));
    const tag = `<script data-app="${described}"`;
    const rest = `></script>${definitions === '' ? '' : `<script>${definitions}</script>`}`;
    const headAt = headOffset(this.#html, PAGE_FILE);
    this.#edits.insert(headAt, `${tag}${rest}`);
    const text = this.#edits.apply();
    return { text, bridgeAt: Buffer.byteLength(text.slice(0, text.indexOf(tag) + tag.length)) };
  }

  #element(element: PageElement): void {
    const { name, isHtml, attributes, start, end } = element;
    if (attributes.has('style')) this.#styleAttribute(element);
    for (const attribute of SHOWN[name] ?? []) this.#shown(element, attribute);
    if (attributes.has('srcset')) this.#candidates(element);
    if (!isHtml) return;
    const frame = FRAMES[name];
    if (frame !== undefined && attributes.has(frame)) {
      // Its policy lets a page show frames, but none of elsewhere.
      this.#files.find(attributes.get(frame) ?? '', PAGE_FILE);
      this.#files.fault(
        PAGE_FILE,
        `It shows something in a frame, <${name}>, and hosts show no frames in a page.`,
        'frame',
      );
    }
    if (name === 'script' && element.isClosed) this.#script(element);
    if (name === 'style' && element.isClosed) this.#style(element);
    if (name === 'link') this.#link(element);
    // The addresses are in their place, and the host has a policy of its own.
    const isPolicy = name === 'meta' && /^content-security-policy$/i.test(attributes.get('http-equiv') ?? '');
    if (name === 'base' || isPolicy) this.#edits.replace(start, end, '');
  }

  #shown(element: PageElement, attribute: string): void {
    const url = this.#files.inlined(element.attributes.get(attribute) ?? '', PAGE_FILE);
    if (url !== null) this.#attribute(element, attribute, url);
  }

  #styleAttribute(element: PageElement): void {
    const css = element.attributes.get('style') as string;
    if (/\(|vh/i.test(css)) this.#attribute(element, 'style', inlineStyles(css, this.#files, PAGE_FILE));
  }

  /** `a.png, b.png 2x`: pictures of which the browser takes one. */
  #candidates(element: PageElement): void {
    const written = candidatesIn(element.attributes.get('srcset') as string).map(([url = '', ...rest]) =>
      [this.#files.inlined(url, PAGE_FILE) ?? url, ...rest].join(' '),
    );
    this.#attribute(element, 'srcset', written.join(', '));
  }

  #attribute({ places }: PageElement, name: string, value: string): void {
    const place = places[name];
    if (place) this.#edits.replace(place.startOffset, place.endOffset, `${name}="${attributeText(value)}"`);
  }

  #textOf({ contentStart, contentEnd }: PageElement): string {
    return this.#html.slice(contentStart, contentEnd);
  }

  #style(element: PageElement): void {
    const css = this.#textOf(element);
    this.#edits.replace(element.contentStart, element.contentEnd, styleText(inlineStyles(css, this.#files, PAGE_FILE)));
  }

  #link({ attributes, start, end }: PageElement): void {
    const rel = attributes.get('rel') ?? '';
    const isSheet = /\bstylesheet\b/i.test(rel) && !/\balternate\b/i.test(rel) && !attributes.has('disabled');
    const found = isSheet ? this.#files.find(attributes.get('href') ?? '', PAGE_FILE) : null;
    if (found !== null) {
      const css = inlineStyles(this.#files.text(found.path), this.#files, found.path);
      this.#edits.replace(start, end, `<style${kept(attributes, ['media', 'id', 'class'])}>${styleText(css)}</style>`);
    } else if (isSheet || DROPPED_LINKS.test(rel)) this.#edits.replace(start, end, '');
  }

  /** Each stays where it is, so that they run in their order. */
  #script(element: PageElement): void {
    const { attributes, start, end } = element;
    const type = typeOf(element);
    const src = attributes.get('src');
    if (type === 'importmap' || attributes.has('nomodule')) this.#edits.replace(start, end, '');
    else if (type === 'module') {
      const key = src === undefined ? this.#modules.inline(this.#textOf(element)) : this.#modules.file(src);
      const run = key === null ? '' : `await svcRun(${scriptJson(key)});`;
      this.#edits.replace(start, end, `<script type="module"${kept(attributes, ['async', 'id'])}>${run}</script>`);
    } else if (src !== undefined && (type === '' || JAVASCRIPT.test(type))) {
      const found = this.#files.find(src, PAGE_FILE);
      const code = found === null ? '' : this.#files.text(found.path);
      const isLater = attributes.has('defer') || attributes.has('async');
      const written = isLater
        ? `<script type="module">svcScript(${scriptJson(code)});</script>`
        : `<script${kept(attributes, ['id'])}>${scriptText(code)}</script>`;
      this.#edits.replace(start, end, written);
    }
  }
}

const CANDIDATE = /[\s,]*([^\s,]\S*)/y;
const DESCRIPTION = /[^,]*/y;

/** Each with its address and what describes it: a comma ends one at the end of an address, and anywhere in a description. */
function candidatesIn(srcset: string): string[][] {
  const found: string[][] = [];
  CANDIDATE.lastIndex = 0;
  for (let match = CANDIDATE.exec(srcset); match !== null; match = CANDIDATE.exec(srcset)) {
    const [, word = ''] = match;
    const address = withoutCommas(word);
    DESCRIPTION.lastIndex = CANDIDATE.lastIndex;
    const description = address === word ? (DESCRIPTION.exec(srcset)?.[0].trim() ?? '') : '';
    CANDIDATE.lastIndex = DESCRIPTION.lastIndex;
    found.push(description === '' ? [address] : [address, description]);
  }
  return found;
}

function withoutCommas(text: string): string {
  let end = text.length;
  while (text[end - 1] === ',') end--;
  return text.slice(0, end);
}

/** Of a script, in lower case. */
function typeOf({ name, isHtml, attributes }: PageElement): string {
  return name === 'script' && isHtml ? (attributes.get('type') ?? '').trim().toLowerCase() : '';
}

function kept(attributes: ReadonlyMap<string, string>, names: string[]): string {
  return [...attributes]
    .filter(([name]) => names.includes(name) || name.startsWith('data-'))
    .map(([name, value]) => ` ${name}="${attributeText(value)}"`)
    .join('');
}
