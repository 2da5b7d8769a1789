/**
 * Makes the web app manifest of an app that brings none: with it browsers install the page (specification, "Installed pages").
 * Pure.
 */
import { APP_ICON, DRAWN_ICONS } from '../../protocol/http/icons.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Place } from '../http/access/places.ts';

/** The file of an app that is served instead, if there is one. */
export const WEB_MANIFEST = 'manifest.webmanifest';

/** The setting that colours an app, as pages know it (app author's guide, "Settings"). */
const ACCENT = 'appAccent';
/** As far as it can be told without parsing CSS: what browsers do not know they leave out. */
const COLOUR = /^(?:#[0-9a-f]{3,8}|[a-z]{3,30}|[a-z]{3,10}\([^()"]{1,60}\))$/i;

type Installed = {
  version: Pick<VersionSummary, 'name' | 'knobs'>;
  /** The stored ones. */
  settings: Record<string, unknown>;
  /** Where it is asked for: an origin of one page is that page's app as a whole. */
  place: Pick<Place, 'kind'>;
  /** Whether the app answers with a file at this path. */
  serves(path: string): boolean;
};

/** JSON. Its addresses are relative to its own, which is in the folder of the page. */
export function webManifest({ version: { name, knobs }, settings, place, serves }: Installed): string {
  const home = place.kind === 'page' ? '/' : './';
  const colour = settings[ACCENT] ?? knobs.find(({ key }) => key === ACCENT)?.default;
  return JSON.stringify({
    name,
    start_url: home,
    scope: home,
    display: 'standalone',
    ...(typeof colour === 'string' && COLOUR.test(colour) ? { theme_color: colour } : {}),
    icons: iconsOf(serves),
  });
}

function iconsOf(serves: Installed['serves']): object[] {
  const drawn = DRAWN_ICONS.filter(({ name, purpose }) => purpose !== 'touch' && serves(name));
  // Of a version that an older release stored, and of a draft, nothing is drawn.
  if (drawn.length === 0) return [{ src: APP_ICON, sizes: 'any', type: 'image/svg+xml' }];
  return drawn.map(({ name, size, purpose }) => ({ src: name, sizes: `${size}x${size}`, type: 'image/png', purpose }));
}
