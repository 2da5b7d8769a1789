/** Paths as they are printed: short ones for reading, and words that can be pasted into a shell. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A path as a person would write it: relative to the current folder, or with `~`. */
export function shortPath(path: string, { env, cwd }: { env: NodeJS.ProcessEnv; cwd: string }): string {
  const home = env.HOME ?? homedir();
  if (path === cwd) return '.';
  if (path.startsWith(join(cwd, '/')) && cwd !== '/') return path.slice(cwd.length + 1);
  if (path === home) return '~';
  return path.startsWith(join(home, '/')) ? join('~', path.slice(home.length)) : path;
}

/** A path as one word of a shell. A leading `~/` stays outside the quotes, where the shell expands it. */
export function shellPath(path: string): string {
  if (path === '~') return path;
  if (path.startsWith('~/')) return `~/${quoted(path.slice(2))}`;
  // A leading dash would make it an option.
  return quoted(path.startsWith('-') ? `./${path}` : path);
}

function quoted(text: string): string {
  return /^[\w./:@%+=,-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
