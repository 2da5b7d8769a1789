/** What the palette can find, and which of it fits the words that were typed. */
import { hrefOf } from '../address.ts';
import { viewsOf } from '../app/views.ts';
import { DOCUMENTS } from '../docs/help-pages.ts';
import { type GatewayState, isOwners } from '../gateway-state.tsx';

/** `also` is found by, and not shown; `isNear` is about what is on the screen. An entry is a link, or does something. */
export type Entry = { key: string; text: string; aside: string; also?: string; isNear?: boolean } & (
  | { href: string }
  | { act: () => unknown }
);

export type Group = { name: string; entries: readonly Entry[] };

export const wordsOf = (sought: string): string[] => sought.toLowerCase().split(/\s+/).filter(Boolean);

/** Every word is in it. */
export function fits({ text, aside, also = '' }: Pick<Entry, 'text' | 'aside' | 'also'>, words: readonly string[]) {
  const whole = `${text} ${aside} ${also}`.toLowerCase();
  return words.every((word) => whole.includes(word));
}

/** Lower is better: it begins with the first word, one of its words does, or the word is somewhere in it. */
function rankOf(text: string, word: string): number {
  const lower = text.toLowerCase();
  if (lower.startsWith(word)) return 0;
  return lower.includes(` ${word}`) ? 1 : 2;
}

const nearness = ({ isNear = false }: Entry): number => (isNear ? 0 : 1);

/** The best `most` of those that fit; without words the first ones, as they are. */
export function matching(entries: readonly Entry[], words: readonly string[], most: number): Entry[] {
  const [first] = words;
  if (first === undefined) return entries.slice(0, most);
  return entries
    .filter((entry) => fits(entry, words))
    .map((entry) => ({ entry, rank: rankOf(entry.text, first) }))
    .sort(
      (a, b) => a.rank - b.rank || nearness(a.entry) - nearness(b.entry) || a.entry.text.length - b.entry.text.length,
    )
    .slice(0, most)
    .map(({ entry }) => entry);
}

/** The group whose best entry fits best is first; those that fit alike stay in their order. */
export function ordered(groups: readonly Group[], [first]: readonly string[]): Group[] {
  const filled = groups.filter(({ entries }) => entries.length > 0);
  if (first === undefined) return filled;
  return filled.sort((a, b) => rankOf(a.entries[0]!.text, first) - rankOf(b.entries[0]!.text, first));
}

const place = (text: string, aside: string, ...parts: string[]): Entry => {
  const href = hrefOf(parts);
  return { key: href, text, aside, href };
};

/** The documents that the console shows. */
export const DOCUMENT_ENTRIES: readonly Entry[] = DOCUMENTS.map(([name, title]) => ({
  ...place(title, 'Help', 'docs', name),
  also: 'documentation guide manual',
}));

/** The places of the gateway, and the apps with their views: those that who is here may see. */
export function placesOf(state: Pick<GatewayState, 'apps' | 'isShared' | 'person'>): Entry[] {
  const places = [
    place('Apps', 'Gateway'),
    place('Automations', 'Gateway', 'automations'),
    place('Calendar', 'Automations', 'automations', 'calendar'),
    place('New automation', 'Automations', 'automations', 'new'),
    place('Runs', 'Gateway', 'runs'),
    place('People', 'Gateway', 'people'),
    place('Your account', 'Gateway', 'account'),
    place('System', 'Gateway', 'system'),
    place('Insights', 'System', 'system', 'insights'),
    place('Notices', 'System', 'system', 'notices'),
    place('Backups', 'System', 'system', 'backups'),
    place('Sign-in', 'System', 'system', 'sign-in'),
    place('Trash', 'System', 'system', 'trash'),
    place('Audit', 'System', 'system', 'audit'),
  ];
  const { apps = [] } = state;
  return [
    ...places.slice(0, isOwners(state) ? undefined : 1),
    ...apps.flatMap((app) => {
      const { id, name } = app;
      const views = viewsOf(state, app);
      return [
        ...(views[0]?.id === 'overview' ? [place(name, id, 'apps', id)] : []),
        ...views
          .filter((view) => view.id !== 'overview')
          .map((view) => place(`${name}: ${view.text}`, id, 'apps', id, view.id)),
      ];
    }),
  ];
}
