/** Names and ids that forms suggest for a new app or automation. Pure. */

/** What fields for ids take, as their `pattern`. */
export const APP_ID = '[a-z0-9][a-z0-9_\\-]{0,62}';

/** An id made of a name, in letters that addresses and folders have. */
export const idOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/\p{Mark}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 63);

/** What an archive is called, of its file's name or its address: `https://example.com/notes-1.2.zip?raw` is `notes-1.2`. */
export const sourceName = (source: string): string =>
  (
    source
      .replace(/[?#].*$/, '')
      .split('/')
      .findLast(Boolean) ?? ''
  ).replace(/\.(?:tar\.gz|tgz|zip)$/i, '');
