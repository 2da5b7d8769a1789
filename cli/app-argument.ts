/**
 * Finds the app that the words of a command line mean: its id, the folder of an app, or without either the app whose
 * folder the command runs in.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { isAppId } from '../protocol/ids.ts';
import { ORIGIN_FILE } from '../protocol/rules/archive-rules.ts';
import { CommandError } from './failure.ts';

const MANIFEST = 'app.json';

/** An app on this machine; `folder` is absolute. */
type LocalApp = { id: string; folder: string };
type Usage = { name?: string; group?: string; positionals: string };

/** Takes no app from the current folder: who removes one names it. */
const NAMED_ALWAYS = ['rm'];
/** Where `[app]` narrows the drafts. Elsewhere a command without an app has a meaning of its own, such as all apps. */
const NARROWED = 'Drafts';

/** The folder is that of the app, if there is one here. */
const APP_AND_FOLDER = '<app> [dir]';

/** An app id never looks like this. */
export function isPath(word: string): boolean {
  return word.includes('/') || /^\.+$/.test(word);
}

/** The id of the app in a folder. Throws `CommandError` where there is none. */
export function appOfFolder(folder: string, shown = folder): string {
  const id = idIn(folder);
  if (id !== null) return id;
  const isThere = existsSync(folder);
  throw new CommandError(
    isThere ? `${shown} is not the folder of an app: it has no app.json with an "id".` : `${shown} does not exist.`,
    'Name an app by its id (svc apps), or by the folder that has its app.json.',
  );
}

/**
 * The positionals with ids in place of folders, and with the app of the current folder where the usage needs an app that
 * the words leave out. Words that fit the usage as they are stay. Throws `CommandError` for a path that leads to no app.
 */
export function withApp(words: string[], usage: Usage, cwd: string): string[] {
  const places = usage.positionals.split(' ').filter(Boolean);
  const known = words.map((word, at) => meant(word, places[at] ?? '', isApp(places, at, words[0]), cwd));
  const filled = withAppOfFolder(known, places, usage, cwd) ?? known;
  const found = filled.map((word, at) =>
    isApp(places, at, filled[0]) && isPath(word) ? appOfFolder(resolve(cwd, word), word) : word,
  );
  const [app] = found;
  if (app === undefined || found.length > 1 || usage.positionals !== APP_AND_FOLDER) return found;
  return [app, words[0] !== undefined && isPath(words[0]) ? words[0] : folderOf(app, cwd)];
}

/** Null where they say which app, or mean something without one. */
function withAppOfFolder(words: string[], places: string[], { name = '', group }: Usage, cwd: string): string[] | null {
  const at = places.findIndex((_, index) => isApp(places, index, words[0]) || (index === 0 && isFolder(places[0])));
  const place = places[at];
  if (place === undefined || NAMED_ALWAYS.includes(name)) return null;
  const isLeftOut = group === NARROWED && place === '[app]' && words.length === 0;
  if (fits(words, places) && !isLeftOut) return null;
  const here = enclosingApp(cwd);
  if (here === null) return null;
  const app = kinds(place).includes('dir') ? relative(cwd, here.folder) || '.' : here.id;
  const filled = [...words.slice(0, at), app, ...words.slice(at)];
  return fits(filled, places) ? filled : null;
}

/** The value of `--app`: an id, or the folder of an app. */
export function appOption(value: string, cwd: string): string {
  return isPath(value) ? appOfFolder(resolve(cwd, value), value) : value;
}

/** A folder in place of the id that one app here has, an id in place of a folder, or an automation with its app. */
function meant(word: string, place: string, wantsId: boolean, cwd: string): string {
  if (place.startsWith('<dir')) return folderOf(word, cwd);
  if (wantsId && isPath(word)) return idIn(resolve(cwd, word)) ?? word;
  const isAutomation = place.startsWith('<app/automation|') && isAppId(word) && !isVerb(word, place);
  const here = isAutomation ? enclosingApp(cwd) : null;
  return here === null ? word : `${here.id}/${word}`;
}

function folderOf(word: string, cwd: string): string {
  if (isPath(word) || !isAppId(word) || existsSync(resolve(cwd, word))) return word;
  const [only, ...others] = [enclosingApp(cwd), ...appsBelow(cwd)].filter((app) => app?.id === word);
  return only == null || others.length > 0 ? word : relative(cwd, only.folder) || '.';
}

/** Whether the word at this place is the id of an app, and no verb beside it as in `<files|show|app>`. */
function isApp(places: string[], at: number, first: string | undefined): boolean {
  const all = kinds(places[at]);
  if (!all.includes('app') || all.includes('dir')) return false;
  return at > 0 ? isVerb(first, places[0]) || !kinds(places[0]).includes('app') : !isVerb(first, places[0]);
}

/** Whether the usage needs the folder of an app there; `[dir]` is a new one. */
function isFolder(place = ''): boolean {
  return place.startsWith('<dir') || place.startsWith('<app|dir');
}

function isVerb(word: string | undefined, place: string | undefined): boolean {
  const all = kinds(place);
  return all.length > 1 && word !== undefined && !/^(?:app|dir)/.test(word) && all.includes(word);
}

/** `<ls|get>` → ls, get. */
function kinds(place = ''): string[] {
  return place.replace(/[[\]<>]/g, '').split('|');
}

/** Whether the words can be what the usage says, as far as their form tells. */
function fits(words: string[], places: string[]): boolean {
  const required = places.filter((place) => place.startsWith('<')).length;
  const isVerbAlone = words.length === 1 && kinds(places[0]).includes('app') && isVerb(words[0], places[0]);
  if (isVerbAlone || words.length < required || words.length > places.length) return false;
  return words.every((word, at) => kinds(places[at]).some((kind) => hasForm(word, kind)));
}

function hasForm(word: string, kind: string): boolean {
  if (kind === 'app') return isAppId(word);
  if (kind === 'query' || kind === 'action') return /^[A-Za-z_][\w-]*$/.test(word);
  if (kind === 'input' || kind === 'params') return /^(?:[[{"@-]|\d|true$|false$|null$)/.test(word);
  return true;
}

/** The app whose folder, or a folder below it, is the current one. */
function enclosingApp(cwd: string): LocalApp | null {
  for (let folder = cwd; ; folder = dirname(folder)) {
    // Another user may have put one above the current folder, so that a command means a different app.
    const id = folder === cwd || isOurs(folder) ? idIn(folder) : null;
    if (id !== null) return { id, folder };
    if (folder === dirname(folder)) return null;
  }
}

function appsBelow(cwd: string): LocalApp[] {
  try {
    const folders = readdirSync(cwd, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return folders.flatMap(({ name }) => {
      const folder = join(cwd, name);
      const id = idIn(folder);
      return id === null ? [] : [{ id, folder }];
    });
  } catch {
    return [];
  }
}

function idIn(folder: string): string | null {
  const id = memberOf(join(folder, ORIGIN_FILE), 'app') ?? memberOf(join(folder, MANIFEST), 'id');
  return typeof id === 'string' && isAppId(id) ? id : null;
}

/** Other programs have files of these names too: what is not ours says nothing. */
function memberOf(file: string, member: string): unknown {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown> | null)?.[member];
  } catch {
    return undefined;
  }
}

function isOurs(folder: string): boolean {
  return statSync(folder).uid === process.getuid?.();
}
