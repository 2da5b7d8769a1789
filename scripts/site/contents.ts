/** Reads the order and the groups of the documents from the table at the end of the README, whose rows are readers. */
import type { Tokens } from 'marked';
import { plainText, tokensOf } from './markdown.ts';

export type Entry = { label: string; target: string };
export type Group = { label: string; entries: Entry[] };

const capitalised = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** Its rows: `| for whom | links |`, each link relative to the README. */
export function groupsOf(readme: string): Group[] {
  const tables = tokensOf(readme).filter((token) => token.type === 'table') as Tokens.Table[];
  const table = tables.find(({ header }) => plainText(header[0]?.tokens) === 'For');
  if (!table) throw new Error('README.md has no table of documents: its first column is "For".');
  return table.rows.map(([reader, links]) => ({
    label: capitalised(plainText(reader?.tokens)),
    entries: (links?.tokens ?? [])
      .filter((token): token is Tokens.Link => token.type === 'link')
      .map(({ tokens, href }) => ({ label: capitalised(plainText(tokens)), target: href })),
  }));
}
