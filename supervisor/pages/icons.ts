/** Makes icons of browser tabs: the gateway's own, and a tile for an app without one. Pure. */
import { createHash } from 'node:crypto';
import { Asset } from '../http/assets.ts';

/** The sign of the gateway, also at the top of its pages. */
export const MARK =
  "<svg xmlns='http://www.w3.org/2000/svg' width='32' height='32' viewBox='0 0 32 32'><rect width='32' height='32' rx='9' fill='#e5683c'/><path d='M8.5 24v-7.5a7.5 7.5 0 0 1 15 0V24M16 24v-6.5' fill='none' stroke='#fff' stroke-width='3' stroke-linecap='round'/></svg>";

/** The path that browsers request when a page names no icon. */
export const ICON = 'favicon.ico';
/** The file of an app that templates name in their pages. */
export const APP_ICON = 'icon.svg';

/** The first letter of the id on a colour derived from it; white on it has a contrast of at least 4.5. */
export function tileOf(id: string): string {
  const hue = createHash('sha256').update(id).digest().readUInt16BE(0) % 360;
  const letter = (/[a-z0-9]/.exec(id)?.[0] ?? '').toUpperCase();
  return (
    `<svg xmlns='http://www.w3.org/2000/svg' width='32' height='32' viewBox='0 0 32 32'><rect width='32' height='32' rx='9' fill='hsl(${hue} 60% 30%)'/>` +
    `<text x='16' y='22.5' text-anchor='middle' font-family='system-ui,sans-serif' font-size='19' font-weight='600' fill='#fff'>${letter}</text></svg>`
  );
}

/** An SVG as it is answered; `headers` are cache and security policy. */
export function iconAsset(svg: string, headers: Record<string, string>): { asset: Asset; bytes: Buffer } {
  const etag = `"${createHash('sha256').update(svg).digest('base64url').slice(0, 32)}"`;
  return { asset: new Asset('image/svg+xml', etag, [], headers), bytes: Buffer.from(svg) };
}
