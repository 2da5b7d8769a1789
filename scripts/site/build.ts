/** Builds the site: finds the documents, renders each, checks every link and anchor, and writes the folder. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Marked, type Token, type Tokens } from 'marked';
import { type Group, groupsOf } from './contents.ts';
import { codeBlock, escapeHtml, type Picture, plainText, type Rendered, render, tokensOf } from './markdown.ts';
import { documentPage, type Frame, landingPage, type Page } from './page.ts';
import { searchScript } from './search-index.ts';

const assets = join(dirname(fileURLToPath(import.meta.url)), 'assets');

/** A link to another document: where it stands, as it was written, and what it wants to be there. */
type Link = { from: string; written: string; source: string; anchor: string };
type Rendering = Rendered & { href: string; title: string; description: string };

/** Links or images that lead nowhere; the message has a line for each. */
export class BrokenLinks extends Error {
  constructor(readonly problems: string[]) {
    super(problems.join('\n'));
  }
}

/** `docs/app-guide.md` → `app-guide.html`, `bench/README.md` → `bench.html`, `templates` → `templates.html`. */
function pageName(source: string): string {
  if (source === 'README.md') return 'start.html';
  const plain = source.replace(/^docs\//, '').replace(/(?:\/README)?\.md$/, '');
  return `${plain.replaceAll('/', '-').toLowerCase()}.html`;
}

class Site {
  readonly #root: string;
  readonly #out: string;
  readonly #pages = new Map<string, Rendering>();
  readonly #links: Link[] = [];
  readonly #problems: string[] = [];
  readonly #waiting = new Set<string>();

  constructor(root: string, out: string) {
    this.#root = root;
    this.#out = out;
  }

  async build(): Promise<{ pages: number }> {
    rmSync(this.#out, { recursive: true, force: true });
    mkdirSync(this.#out, { recursive: true });
    const readme = this.#read('README.md');
    for (const name of readdirSync(join(this.#root, 'docs')).sort()) {
      if (name.endsWith('.md')) this.#waiting.add(`docs/${name}`);
    }
    this.#add('README.md', firstSteps(tokensOf(readme)));
    const landing = this.#landing(tokensOf(readme));
    // Rendering a page finds others.
    for (const source of this.#waiting) {
      if (!this.#pages.has(source)) this.#add(source, this.#tokens(source));
    }
    const groups = this.#groups(groupsOf(readme));
    this.#checkLinks();
    if (this.#problems.length > 0) throw new BrokenLinks(this.#problems);
    const { version } = JSON.parse(this.#read('package.json'));
    const frame: Frame = { groups, version };
    for (const page of this.#pages.values()) this.#write(page.href, documentPage(page, frame));
    this.#write('index.html', landingPage(landing, frame));
    for (const name of readdirSync(assets)) {
      if (name !== 'search.js') cpSync(join(assets, name), join(this.#out, name));
    }
    this.#write('search.js', await searchScript([...this.#pages.values()]));
    return { pages: this.#pages.size + 1 };
  }

  #read(path: string): string {
    return readFileSync(join(this.#root, path), 'utf8');
  }

  #write(name: string, text: string): void {
    writeFileSync(join(this.#out, name), text);
  }

  /** A document's blocks; of a folder, those of what is in it; of a file that is no document, itself as code. */
  #tokens(source: string): Token[] {
    if (statSync(join(this.#root, source)).isDirectory()) return this.#folderTokens(source);
    const text = this.#read(source);
    if (source === 'LICENSE') return tokensOf(`# Licence\n\n${text}`);
    if (source.endsWith('.md')) return tokensOf(text);
    const shown = `# ${basename(source)}\n\nThe file \`${source}\` of the repository.\n\n`;
    return [...tokensOf(shown), { type: 'code', raw: text, text: text.trimEnd(), lang: languageOf(source) }];
  }

  /** The READMEs of its folders, or else a list of its files. */
  #folderTokens(source: string): Token[] {
    const title = tokensOf(`# ${source.charAt(0).toUpperCase()}${source.slice(1)}\n`);
    const names = readdirSync(join(this.#root, source)).sort();
    const folders = names.filter((name) => existsSync(join(this.#root, source, name, 'README.md')));
    if (folders.length === 0) {
      const files = names.map((name) => `- [${name}](${name})\n`).join('');
      return [...title, ...tokensOf(`The files in \`${source}/\`:\n\n${files}`)];
    }
    return [
      ...title,
      ...folders.flatMap((folder) => within(folder, tokensOf(this.#read(`${source}/${folder}/README.md`)))),
    ];
  }

  #add(source: string, tokens: Token[]): void {
    const rendered = this.#render(source, tokens);
    const [title] = rendered.headings;
    if (title?.depth !== 1) this.#problems.push(`${source}: it does not begin with a heading of the first level`);
    const description = plainText(tokens.filter(({ type }) => type === 'paragraph').slice(0, 1));
    this.#pages.set(source, {
      ...rendered,
      href: pageName(source),
      title: title?.text ?? source,
      description: oneLine(description),
    });
  }

  #render(source: string, tokens: Token[]): Rendered {
    return render(
      tokens,
      (target) => this.#resolve(source, target),
      (target) => this.#picture(source, target),
    );
  }

  /** Addresses of other sites stay; everything else has to be a document of ours, and is checked at the end. */
  #resolve(from: string, written: string): string {
    if (/^(?:https?|mailto):/.test(written)) return written;
    const [path = '', anchor = ''] = written.split('#');
    const base =
      existsSync(join(this.#root, from)) && statSync(join(this.#root, from)).isDirectory() ? from : dirname(from);
    const source = path === '' ? from : normalize(join(base, path)).replace(/\/$/, '');
    this.#links.push({ from, written, source, anchor });
    if (!existsSync(join(this.#root, source))) return '#';
    this.#waiting.add(source);
    return `${path === '' ? '' : pageName(source)}${anchor && `#${anchor}`}`;
  }

  #picture(from: string, written: string): Picture {
    const path = normalize(join(dirname(from), written));
    if (!existsSync(join(this.#root, path))) {
      this.#problems.push(`${from}: the image ${written} does not exist`);
      return { src: '', dark: null, width: 0, height: 0 };
    }
    const src = this.#copy(path);
    const dark = path.replace(/(?=\.png$)/, '-dark');
    const hasDark = dark !== path && existsSync(join(this.#root, dark));
    return { src, dark: hasDark ? this.#copy(dark) : null, ...sizeOf(readFileSync(join(this.#root, path))) };
  }

  #copy(path: string): string {
    cpSync(join(this.#root, path), join(this.#out, basename(path)));
    return basename(path);
  }

  #checkLinks(): void {
    for (const { from, written, source, anchor } of this.#links) {
      const page = this.#pages.get(source);
      if (!page) this.#problems.push(`${from}: the link ${written} leads nowhere`);
      else if (anchor !== '' && !page.headings.some(({ id }) => id === anchor)) {
        this.#problems.push(`${from}: the link ${written} names a heading that ${source} does not have`);
      }
    }
  }

  /** With addresses of pages in place of files. A document that the README's table does not name comes last. */
  #groups(groups: Group[]): Group[] {
    const named = new Set<string>();
    const placed = groups.map(({ label, entries }) => ({
      label,
      entries: entries.map(({ label: text, target }) => {
        named.add(target);
        return { label: text, target: pageName(target) };
      }),
    }));
    const start = this.#pages.get('README.md');
    if (start) placed[0]?.entries.unshift({ label: start.title, target: start.href });
    const others = [...this.#pages].filter(([source]) => source.startsWith('docs/') && !named.has(source));
    placed.at(-1)?.entries.push(...others.map(([, { title, href }]) => ({ label: title, target: href })));
    return placed;
  }

  /** The beginning of the README: its first sentences and picture, how it is started, what one gets. */
  #landing(tokens: Token[]): Page {
    const [title, lead, picture, ...more] = sectionOf(tokens, null);
    const run = sectionOf(tokens, 'Run it');
    const where = run.find(({ type }) => type === 'paragraph');
    const [gets, ...what] = sectionOf(tokens, 'What you get');
    const code = run.find(({ type }) => type === 'code') as Tokens.Code | undefined;
    if (!title || !lead || !picture || !where || !code || !gets) {
      throw new Error(
        'README.md has to begin with a title, a sentence and a picture, then "Run it" and "What you get".',
      );
    }
    const html = (...some: Token[]) => this.#render('README.md', some).html;
    return {
      href: 'index.html',
      title: `svc: ${oneLine(plainText([lead]))}`,
      description: oneLine(plainText([lead])),
      headings: [],
      html: `<div class="hero">
<div class="words">
<h1>${escapeHtml(plainText([title]))}</h1>
<div class="lead">${html(lead)}</div>
<div class="where">${html(where)}</div>
${codeBlock(code.text, code.lang)}
<p class="actions"><a class="button" href="start.html">First steps</a> <a href="#documents">All documents</a></p>
</div>
<div class="picture">${html(picture)}</div>
</div>
<div class="more">${html(...more)}</div>
<section class="gets" aria-labelledby="what-you-get">${html(gets, ...what)}</section>`,
    };
  }
}

function languageOf(file: string): string {
  const extension = extname(file).slice(1);
  return { conf: 'nginx', service: 'ini', socket: 'ini', yml: 'yaml' }[extension] ?? extension;
}

/** The blocks of a document in `folder` as part of one beside that folder. */
function within(folder: string, tokens: Token[]): Token[] {
  void new Marked().walkTokens(tokens, (token) => {
    if (token.type === 'heading') token.depth += 1;
    if ((token.type === 'link' || token.type === 'image') && !/^\w+:|^#/.test(token.href)) {
      token.href = `${folder}/${token.href}`;
    }
  });
  return tokens;
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

/** The blocks of one section with its heading, without blank ones; `null`: those before the first section. */
function sectionOf(tokens: Token[], heading: string | null): Token[] {
  const isSection = (token: Token): token is Tokens.Heading => token.type === 'heading' && token.depth === 2;
  const begin =
    heading === null ? 0 : tokens.findIndex((token) => isSection(token) && plainText(token.tokens) === heading);
  if (begin < 0) return [];
  const length = tokens.slice(begin + 1).findIndex(isSection);
  return tokens.slice(begin, length < 0 ? undefined : begin + 1 + length).filter(({ type }) => type !== 'space');
}

/** The README without what the first page shows. */
function firstSteps(tokens: Token[]): Token[] {
  const shown = new Set([...sectionOf(tokens, null), ...sectionOf(tokens, 'What you get')]);
  return [...tokensOf('# First steps\n'), ...tokens.filter((token) => !shown.has(token))];
}

/** Width and height in pixels, of a PNG or an SVG. */
function sizeOf(image: Buffer): { width: number; height: number } {
  if (image.subarray(1, 4).toString() === 'PNG')
    return { width: image.readUInt32BE(16), height: image.readUInt32BE(20) };
  const [, width = '0', height = '0'] = /<svg width="(\d+)" height="(\d+)"/.exec(image.toString()) ?? [];
  return { width: Number(width), height: Number(height) };
}

/** Builds the site of the clone at `root` into `out`, which is emptied first. Throws `BrokenLinks`. */
export function buildSite(root: string, out: string): Promise<{ pages: number }> {
  return new Site(root, out).build();
}
