/** Writes the HTML of a page around the text of its document. */
import type { Group } from './contents.ts';
import { escapeHtml, type Heading } from './markdown.ts';

export type Step = { label: string; href: string };
export type Page = {
  href: string;
  title: string;
  description: string;
  html: string;
  headings: Heading[];
};
/** What all pages have in common. */
export type Frame = { groups: Group[]; version: string };

/** Nothing but the site's own files, and nothing inline. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

function head({ title, description }: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta http-equiv="content-security-policy" content="${POLICY}" />
<meta name="color-scheme" content="light dark" />
<meta name="description" content="${escapeHtml(description)}" />
<title>${escapeHtml(title)}</title>
<link rel="icon" href="icon.svg" type="image/svg+xml" />
<link rel="stylesheet" href="style.css" />
<script src="client.js" defer></script>
</head>`;
}

function top(groups: Group[], here: string): string {
  const [first] = groups[0]?.entries ?? [];
  const start = first ? `<a class="start" href="${first.target}">${escapeHtml(first.label)}</a>` : '';
  return `<a class="skip" href="#content">Skip to the text</a>
<header class="top">
<button class="menu" type="button" popovertarget="contents" aria-label="All documents"><svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true"><path d="M3 5.5h14M3 10h14M3 14.5h14" /></svg></button>
<a class="brand" href="index.html"${here === 'index.html' ? ' aria-current="page"' : ''}><img src="icon.svg" alt="" width="24" height="24" />svc</a>
${here === 'index.html' ? start : ''}
<button class="find" type="button" hidden aria-label="Search"><svg width="18" height="18" viewBox="0 0 20 20" aria-hidden="true"><circle cx="8.5" cy="8.5" r="5.5" /><path d="m12.7 12.7 4.3 4.3" /></svg><span>Search</span><kbd>/</kbd></button>
</header>`;
}

function contents(groups: Group[], here: string): string {
  const entry = ({ label, target }: { label: string; target: string }) =>
    `<li><a href="${target}"${target === here ? ' aria-current="page"' : ''}>${escapeHtml(label)}</a></li>`;
  const group = ({ label, entries }: Group) =>
    `<h2>${escapeHtml(label)}</h2>\n<ul>\n${entries.map(entry).join('\n')}\n</ul>`;
  return `<nav id="contents" popover aria-label="All documents">\n${groups.map(group).join('\n')}\n</nav>`;
}

function headingList(headings: Heading[]): string {
  const items = headings
    .filter(({ depth }) => depth === 2 || depth === 3)
    .map(({ depth, text, id }) => `<li class="depth-${depth}"><a href="#${id}">${escapeHtml(text)}</a></li>`);
  return items.length < 2 ? '' : `<ul>\n${items.join('\n')}\n</ul>`;
}

function steps(groups: Group[], here: string): string {
  const all = groups.flatMap(({ entries }) => entries);
  const at = all.findIndex(({ target }) => target === here);
  if (at < 0) return '';
  const step = (entry: { label: string; target: string } | undefined, name: string, rel: string) =>
    entry
      ? `<a rel="${rel}" href="${entry.target}"><span>${name}</span> ${escapeHtml(entry.label)}</a>`
      : '<span></span>';
  return `<nav class="steps" aria-label="Next and previous">
${step(all[at - 1], 'Previous', 'prev')}
${step(all[at + 1], 'Next', 'next')}
</nav>`;
}

const SEARCH = `<dialog id="search" aria-label="Search the documents">
<input type="search" role="combobox" aria-label="Search the documents" aria-controls="found" aria-expanded="false" aria-autocomplete="list" placeholder="Search the documents" autocomplete="off" spellcheck="false" />
<div id="found" role="listbox" aria-label="Results"></div>
<p class="hint" role="status"></p>
</dialog>`;

function foot({ version }: Frame): string {
  return `<footer><p>svc ${escapeHtml(version)} · <a href="license.html">MIT licence</a> · made of the Markdown in its repository</p></footer>`;
}

/** A document between the list of all of them and the list of its headings. */
export function documentPage(page: Page, frame: Frame): string {
  const list = headingList(page.headings);
  const short = list && `<details class="toc-short"><summary>On this page</summary>${list}</details>`;
  const html = short ? page.html.replace('</h1>\n', `</h1>\n${short}\n`) : page.html;
  return `${head({ ...page, title: `${page.title} · svc` })}
<body>
${top(frame.groups, page.href)}
<div class="layout">
${contents(frame.groups, page.href)}
<main id="content">
<article>
${html}</article>
${steps(frame.groups, page.href)}
</main>
${list ? `<nav class="toc" aria-label="On this page"><h2>On this page</h2>${list}</nav>` : ''}
</div>
${foot(frame)}
${SEARCH}
</body>
</html>
`;
}

/** The first page: `page.html` is what it shows, and all documents follow. */
export function landingPage(page: Page, frame: Frame): string {
  const group = ({ label, entries }: Group) => {
    const links = entries.map(({ label: text, target }) => `<li><a href="${target}">${escapeHtml(text)}</a></li>`);
    return `<section><h3>${escapeHtml(label)}</h3><ul>${links.join('\n')}</ul></section>`;
  };
  return `${head(page)}
<body class="landing">
${top(frame.groups, page.href)}
${contents(frame.groups, page.href)}
<main id="content">
${page.html}
<section class="documents" aria-labelledby="documents">
<h2 id="documents">Documents</h2>
<div>
${frame.groups.map(group).join('\n')}
</div>
</section>
</main>
${foot(frame)}
${SEARCH}
</body>
</html>
`;
}
