/** Writes the script of the search: minisearch, its index of all sections, and the beginnings of their texts. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import MiniSearch from 'minisearch';
import type { Section } from './markdown.ts';
import { INDEX_OPTIONS } from './search-options.ts';

const assets = join(dirname(fileURLToPath(import.meta.url)), 'assets');

export type Searchable = { href: string; title: string; sections: Section[] };

/** One classic script, which also works where pages are opened as files. */
export async function searchScript(pages: Searchable[]): Promise<string> {
  const documents = pages.flatMap(({ href, title, sections }) =>
    sections
      .filter(({ heading, text }) => heading !== '' || text.trim() !== '')
      .map(({ heading, id, text }) => ({
        href: id === '' ? href : `${href}#${id}`,
        page: title,
        heading: heading || title,
        text: text.trim().replace(/\s+/g, ' '),
      })),
  );
  const index = new MiniSearch(INDEX_OPTIONS);
  index.addAll(documents.map((document, id) => ({ id, ...document })));
  const { outputFiles } = await build({
    entryPoints: [join(assets, 'search.js')],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    legalComments: 'eof',
    define: { INDEX: JSON.stringify(JSON.stringify(index)), DOCUMENTS: JSON.stringify(documents) },
  });
  return outputFiles[0]?.text ?? '';
}
