/** Words of commands that are printed to be pasted into a shell. */

/** A path as one word. A `~/` in front stays outside of the quotes, for in them it is no home. */
export function shellPath(path: string): string {
  if (path === '~') return path;
  if (path.startsWith('~/')) return `~/${quoted(path.slice(2))}`;
  // Else it would be an option.
  return quoted(path.startsWith('-') ? `./${path}` : path);
}

function quoted(text: string): string {
  return /^[\w./:@%+=,-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
