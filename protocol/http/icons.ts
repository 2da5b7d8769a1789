/** Names the icons of an app, and draws that of an app without one: its initial on a colour of its own. Pure. */
import { createHash } from 'node:crypto';

/** The file of an app that its other icons are drawn from. */
export const APP_ICON = 'icon.svg';

/**
 * One that is drawn when a version is stored, a PNG; a file of the app with its name is served instead. A `maskable` one fills its
 * square and keeps what matters in the middle, because phones cut it to their shape; `touch` likewise, for iOS.
 */
export type DrawnIcon = { name: string; size: number; purpose: 'any' | 'maskable' | 'touch' };

/** The one of them that lists of apps show. */
export const LIST_ICON = 'icon-192.png';

export const DRAWN_ICONS: readonly DrawnIcon[] = [
  { name: LIST_ICON, size: 192, purpose: 'any' },
  { name: 'icon-512.png', size: 512, purpose: 'any' },
  { name: 'icon-maskable-512.png', size: 512, purpose: 'maskable' },
  { name: 'apple-touch-icon.png', size: 180, purpose: 'touch' },
];

/** Strokes, so that a tile looks the same everywhere: not every machine has the same fonts, and what draws PNGs has none. */
const GLYPHS: Readonly<Record<string, string>> = {
  a: 'M10.5 22.5 16 9.5l5.5 13M12.6 18.2h6.8',
  b: 'M12 9.5h4.4a3.1 3.1 0 0 1 0 6.2H12h5.2a3.4 3.4 0 0 1 0 6.8H12z',
  c: 'M21.2 12.1a6.5 6.5 0 1 0 0 7.8',
  d: 'M11.5 9.5H15a6.5 6.5 0 0 1 0 13h-3.5z',
  e: 'M20.3 9.5H12v13h8.3M12 16h7',
  f: 'M20.3 9.5H12v13M12 16.2h7',
  g: 'M21 11.9a6.5 6.5 0 1 0 1.5 4.4h-5.3',
  h: 'M11 9.5v13M21 9.5v13M11 16h10',
  i: 'M16 9.5v13M12.5 9.5h7M12.5 22.5h7',
  j: 'M19.8 9.5v8.6a4.4 4.4 0 0 1-8.8.2',
  k: 'M12 9.5v13M20.8 9.5 12 18.3M15.4 15l5.8 7.5',
  l: 'M12.5 9.5v13h8',
  m: 'M10 22.5v-13l6 8.2 6-8.2v13',
  n: 'M11 22.5v-13l10 13v-13',
  o: 'M16 9.5a6.5 6.5 0 0 0 0 13a6.5 6.5 0 0 0 0-13z',
  p: 'M12 22.5v-13h4.8a3.8 3.8 0 0 1 0 7.6H12',
  q: 'M16 9.5a6.5 6.5 0 0 0 0 13a6.5 6.5 0 0 0 0-13zM18 18l4.5 4.5',
  r: 'M12 22.5v-13h4.8a3.8 3.8 0 0 1 0 7.6H12M17 17.1l4.2 5.4',
  s: 'M20.6 12.3c-.5-1.8-2.2-2.8-4.6-2.8-2.6 0-4.4 1.2-4.4 3.2 0 4.4 9.1 2.2 9.1 6.6 0 2-1.9 3.2-4.7 3.2s-4.5-1.1-4.9-3',
  t: 'M10.5 9.5h11M16 9.5v13',
  u: 'M11 9.5v8a5 5 0 0 0 10 0v-8',
  v: 'M10.5 9.5l5.5 13 5.5-13',
  w: 'M8.5 9.5l3.7 13L16 11.5l3.8 11 3.7-13',
  x: 'M11 9.5l10 13M21 9.5l-10 13',
  y: 'M10.5 9.5l5.5 7 5.5-7M16 16.5v6',
  z: 'M11 9.5h10l-10 13h10',
  0: 'M16 9.5c-3.2 0-5 2.6-5 6.5s1.8 6.5 5 6.5 5-2.6 5-6.5-1.8-6.5-5-6.5z',
  1: 'M12.5 12l4-2.5v13',
  2: 'M11.8 13.2a4.2 4.2 0 1 1 7.3 2.9l-7.3 6.4h8.9',
  3: 'M11.8 9.5h8.4l-4.7 5.2a4 4 0 1 1-4.1 5.3',
  4: 'M18.3 22.5v-13l-7.5 9.3h10.9',
  5: 'M20 9.5h-7l-.9 6.1a4.3 4.3 0 1 1-.5 5',
  6: 'M19 9.5l-6.1 6M16 14.1a4.2 4.2 0 0 0 0 8.4a4.2 4.2 0 0 0 0-8.4z',
  7: 'M11.5 9.5h9.3l-5.5 13',
  8: 'M16 9.5a3.1 3.1 0 0 0 0 6.2a3.1 3.1 0 0 0 0-6.2zM16 15.7a3.4 3.4 0 0 0 0 6.8a3.4 3.4 0 0 0 0-6.8z',
  9: 'M13 22.5l6.1-6M16 9.5a4.2 4.2 0 0 0 0 8.4a4.2 4.2 0 0 0 0-8.4z',
};

/** An SVG: the first letter or digit of the id on a colour derived from it; white on it has a contrast of at least 4.5. */
export function tileOf(id: string): string {
  const hue = createHash('sha256').update(id).digest().readUInt16BE(0) % 360;
  const initial = /[a-z0-9]/.exec(id)?.[0] ?? '';
  return (
    `<svg xmlns='http://www.w3.org/2000/svg' width='32' height='32' viewBox='0 0 32 32'><title>${initial.toUpperCase()}</title>` +
    `<rect width='32' height='32' rx='9' fill='hsl(${hue} 60% 30%)'/><path d='${GLYPHS[initial] ?? ''}' fill='none' stroke='#fff' ` +
    `stroke-width='3' stroke-linecap='round' stroke-linejoin='round'/></svg>`
  );
}
