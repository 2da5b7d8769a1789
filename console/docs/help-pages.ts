/** The documents that the console shows, and which of them is about a view. Pure. */
import { type Address, hrefOf } from '../address.ts';

/** In the order in which they are listed; the names of their files without the ending. */
export const DOCUMENTS: readonly (readonly [name: string, title: string])[] = [
  ['console', 'The console'],
  ['agents', 'Agents and chats'],
  ['automations', 'Automations'],
  ['authoring', 'From blank to published'],
  ['app-guide', "App author's guide"],
  ['files', 'Files of apps'],
  ['public-apps', 'Public apps'],
  ['people', 'People'],
  ['sign-in', 'Providers and proxies'],
  ['testing-apps', 'Testing apps'],
  ['handler-rules', 'Handler rules'],
  ['cli', 'Command line'],
  ['mcp', 'MCP for agents'],
  ['specification', 'Specification'],
  ['http-api', 'HTTP reference'],
  ['install', 'Install'],
  ['configuration', 'Configuration'],
  ['operations', 'Operations'],
  ['backup', 'Backup and restore'],
  ['monitoring', 'Monitoring'],
  ['SECURITY', 'Security'],
  ['CHANGELOG', 'Changelog'],
];

/** A document, and a part of it by the id of its heading. */
type Help = readonly [name: string, part?: string | undefined];

const OF_APP: Record<string, Help> = {
  tools: ['app-guide', 'manifest'],
  data: ['console', 'good-to-know'],
  code: ['authoring', 'review-and-publish'],
  automations: ['automations'],
  logs: ['app-guide', 'versions-logs-sql'],
  chat: ['agents'],
  files: ['files'],
  settings: ['app-guide', 'secrets'],
};
const OF_PLACE: Record<string, Help> = {
  automations: ['automations'],
  runs: ['automations', 'history'],
  people: ['people'],
  account: ['people', 'signing-in-and-out'],
  system: ['operations'],
  'system/backups': ['backup'],
  'system/insights': ['agents', 'what-it-costs'],
  'system/trash': ['backup', 'removed-apps'],
};

export const documentHref = ([name, part]: Help): string => hrefOf(['docs', name], { part });

/** The link to the document about the view at an address. */
export function helpAbout({ parts: [place = '', first = '', view = ''] }: Address): string {
  const found = place === 'apps' ? OF_APP[view] : (OF_PLACE[`${place}/${first}`] ?? OF_PLACE[place]);
  return documentHref(found ?? ['console']);
}

/** The id of a heading, as in the links of the documents. */
export const anchorOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/<[^>]*>|&[a-z#0-9]+;/g, '')
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');
