/** Turns one Markdown document into HTML with anchors, and says what it links to and what a search finds in it. */
import { Marked, type Token, type Tokens } from 'marked';
import { highlighted } from './highlight.mjs';

export type Heading = { depth: number; text: string; id: string };
/** What is below one heading, as plain text; the first one of a page may have no heading. */
export type Section = { heading: string; id: string; text: string };
export type Rendered = { html: string; headings: Heading[]; sections: Section[] };
/** Where a link or an image of the document leads on the site; throws if it leads nowhere. */
export type Resolve = (target: string) => string;
/** An image: its address on the site, its size in pixels, and the address of the one for dark pages if there is one. */
export type Picture = { src: string; dark: string | null; width: number; height: number };

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (one) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[one] as string);
}

/** The blocks of a document. */
export function tokensOf(text: string): Token[] {
  return new Marked().lexer(text);
}

/** The text of tokens without marks. */
export function plainText(tokens: Token[] = []): string {
  return tokens.map(plainTextOf).join('');
}

function plainTextOf(token: Token): string {
  if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table;
    return [header, ...rows].map((row) => `${row.map((cell) => plainText(cell.tokens)).join(' ')}\n`).join('');
  }
  if (token.type === 'list') return (token as Tokens.List).items.map((item) => `${plainText(item.tokens)}\n`).join('');
  if (token.type === 'br' || token.type === 'space') return '\n';
  if ('tokens' in token && token.tokens) return plainText(token.tokens) + (token.type === 'paragraph' ? '\n' : '');
  if (token.type === 'code') return `${token.text}\n`;
  return 'text' in token ? String(token.text) : '';
}

/** The name of an anchor as GitHub makes it, so that links work there and here. */
function anchorOf(text: string, used: Map<string, number>): string {
  const plain = text
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');
  const times = used.get(plain) ?? 0;
  used.set(plain, times + 1);
  return times === 0 ? plain : `${plain}-${times}`;
}

/** A block of code; the info string is `<language> <file it is>`. */
export function codeBlock(text: string, info = ''): string {
  const [language = '', file = ''] = info.split(' ');
  const shown = highlighted(text, language) ?? escapeHtml(text);
  const isFile = file !== '' && language !== 'sh';
  const caption = isFile ? `<figcaption>${escapeHtml(file)}</figcaption>` : '';
  const kind = language === 'sh' ? ' shell' : '';
  // Reached with the keyboard, because it scrolls.
  return `<figure class="code${kind}">${caption}<pre tabindex="0"><code>${shown}</code></pre></figure>\n`;
}

/** Renders blocks; `resolve` and `picture` are asked for each link and image. */
export function render(tokens: Token[], resolve: Resolve, picture: (target: string) => Picture): Rendered {
  const headings: Heading[] = [];
  const sections: Section[] = [{ heading: '', id: '', text: '' }];
  const used = new Map<string, number>();
  const ids = new Map<Token, string>();
  for (const token of tokens) {
    if (token.type === 'heading') {
      const text = plainText(token.tokens);
      const id = anchorOf(text, used);
      ids.set(token, id);
      headings.push({ depth: token.depth, text, id });
      sections.push({ heading: text, id, text: '' });
    } else {
      sections[sections.length - 1]!.text += plainTextOf(token);
    }
  }
  const marked = new Marked({
    renderer: {
      heading(token) {
        const id = ids.get(token) ?? '';
        const text = this.parser.parseInline(token.tokens);
        if (token.depth === 1) return `<h1 id="${id}">${text}</h1>\n`;
        const label = escapeHtml(`Link to “${plainText(token.tokens)}”`);
        const link = `<a class="anchor" href="#${id}" aria-label="${label}">#</a>`;
        return `<h${token.depth} id="${id}">${text}${link}</h${token.depth}>\n`;
      },
      code: ({ text, lang }) => codeBlock(text, lang),
      link({ href, tokens: inner }) {
        return `<a href="${escapeHtml(resolve(href))}">${this.parser.parseInline(inner)}</a>`;
      },
      image({ href, text }) {
        const { src, dark, width, height } = picture(href);
        const image = `<img src="${src}" alt="${escapeHtml(text)}" width="${width}" height="${height}" />`;
        if (!dark) return image;
        return `<picture><source srcset="${dark}" media="(prefers-color-scheme: dark)" />${image}</picture>`;
      },
      table(token) {
        // Long addresses and values may be broken, at slashes and commas only.
        const cell = (tag: string, one: Tokens.TableCell) => {
          const text = this.parser.parseInline(one.tokens);
          const breakable = text.replace(/<code>.*?<\/code>/g, (code) => code.replace(/[/,](?!code>)/g, '$&<wbr />'));
          return `<${tag}${one.align ? ` class="${one.align}"` : ''}>${breakable}</${tag}>`;
        };
        const row = (tag: string, cells: Tokens.TableCell[]) =>
          `<tr>${cells.map((one) => cell(one.text === '' ? 'td' : tag, one)).join('')}</tr>`;
        const head = token.header.some(({ text }) => text !== '') ? `<thead>${row('th', token.header)}</thead>` : '';
        const body = token.rows.map((cells) => row('td', cells)).join('\n');
        const table = `<table>${head}<tbody>\n${body}\n</tbody></table>`;
        const name =
          escapeHtml(
            token.header
              .map((one) => plainText(one.tokens))
              .filter(Boolean)
              .join(', '),
          ) || 'Table';
        return `<div class="table" role="group" aria-label="${name}" tabindex="0">${table}</div>\n`;
      },
      // A document has none: what looks like it is a placeholder such as <id> outside of code.
      html: ({ text }) => escapeHtml(text),
    },
  });
  return { html: marked.parser(tokens), headings, sections };
}
