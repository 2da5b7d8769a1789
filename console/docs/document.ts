/** Makes the elements of a document of the gateway from its Markdown: links lead to other documents in the console. */
import createSanitizer from 'dompurify';
import { Marked, type Tokens } from 'marked';
import { anchorOf, documentHref } from './help-pages.ts';

const FILES = '/svc/_docs/';
/** Another document, in `docs/` or beside it, and a heading of it. */
const DOCUMENT = /^(?:\.\.?\/)?(?:docs\/)?([A-Za-z0-9-]+)\.md(?:#(.*))?$/;
const PICTURE = /^(?:\.\/)?(?:docs\/)?([a-z0-9-]+\.(?:png|svg))$/;
const sanitizer = createSanitizer(window);

/** `name` is the document's own, which its links to parts of itself leave out. */
export function documentOf(text: string, name: string): DocumentFragment {
  const marked = new Marked({ gfm: true, async: false });
  marked.use({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const html = this.parser.parseInline(tokens);
        return `<h${depth} id="doc-${anchorOf(html)}" tabindex="-1">${html}</h${depth}>\n`;
      },
      code: ({ text: code }: Tokens.Code) =>
        `<pre tabindex="0"><code>${code.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</code></pre>`,
      link({ href, tokens }: Tokens.Link) {
        const html = this.parser.parseInline(tokens);
        const address = addressOf(href, name);
        return address === null ? html : `<a href="${address}">${html}</a>`;
      },
      image({ href, text: about }: Tokens.Image) {
        const file = PICTURE.exec(href)?.[1];
        return file === undefined ? '' : `<img src="${FILES}${file}" alt="${about.replaceAll('"', '&quot;')}">`;
      },
      table(token: Tokens.Table) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('');
        const rows = token.rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('');
        return `<div class="doc-table" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${cells(token.header, 'th')}</tr></thead><tbody>${rows}</tbody></table></div>`;
      },
    },
  });
  return sanitizer.sanitize(marked.parse(text, { async: false }), { RETURN_DOM_FRAGMENT: true });
}

/** Null for what the console does not show, such as the folder of a template. */
function addressOf(href: string, name: string): string | null {
  if (href.startsWith('#')) return documentHref([name, href.slice(1)]);
  if (/^(?:https?|mailto):/.test(href)) return href;
  const [, other, part] = DOCUMENT.exec(href) ?? [];
  return other === undefined ? null : documentHref([other, part]);
}
