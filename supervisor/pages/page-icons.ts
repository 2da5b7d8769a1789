/** Makes what pages show that is no file: the gateway's icon. Pure. */
import { createHash } from 'node:crypto';
import { Asset } from '../http/assets.ts';

/** The sign of the gateway, also at the top of its pages. */
export const GATEWAY_ICON =
  "<svg xmlns='http://www.w3.org/2000/svg' width='32' height='32' viewBox='0 0 32 32'><rect width='32' height='32' rx='9' fill='#e5683c'/><path d='M8.5 24v-7.5a7.5 7.5 0 0 1 15 0V24M16 24v-6.5' fill='none' stroke='#fff' stroke-width='3' stroke-linecap='round'/></svg>";

/** The path that browsers request when a page names no icon. */
export const ICON = 'favicon.ico';

/** What is made here, as it is answered; `headers` are cache and security policy. */
export function madeAsset(
  type: string,
  content: string | Buffer,
  headers: Record<string, string>,
): { asset: Asset; bytes: Buffer } {
  const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 32)}"`;
  return { asset: new Asset(type, etag, [], headers), bytes: Buffer.from(content) };
}
