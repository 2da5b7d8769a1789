/** Reads `svc://` links, and decides where the pages of a gateway may lead. Pure. */
import { isAppId } from '../../../protocol/ids.ts';
import { LOCAL } from './gateways.ts';
import type { Way } from './shell.ts';

export const SCHEME = 'svc';

const LINK = /^svc:\/\/open(?:\/([\w-]{0,63}))?(?:\?gateway=([a-z0-9][a-z0-9_-]{0,62}))?$/i;

/** `app` null: the console. */
export type Destination = { gateway: string; app: string | null };

/**
 * `svc://open` is the console, `svc://open/<app>` an app of our own gateway, with `?gateway=<id>` of another one that is known. Null
 * for everything else: any web page can offer a link, so one that says more than that is not ours.
 */
export function readLink(text: string): Destination | null {
  const [whole, app = '', gateway = LOCAL] = LINK.exec(text) ?? [];
  if (whole === undefined) return null;
  if (app === '') return { gateway, app: null };
  return isAppId(app) ? { gateway, app } : null;
}

/** The link in the arguments that a second start, or the system, gave. */
export function linkAmong(words: readonly string[]): string | undefined {
  return words.find((word) => word.toLowerCase().startsWith(`${SCHEME}:`));
}

/** Where a page of the gateway whose console is at `console` may lead: its own addresses, and the rest of the web outside. */
export function wayTo(text: string, console: string): Way {
  if (!URL.canParse(text)) return 'refused';
  const url = new URL(text);
  const { host, protocol } = new URL(console);
  if (url.protocol === protocol && (url.host === host || url.host.endsWith(`.${host}`))) return 'here';
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? 'outside' : 'refused';
}
