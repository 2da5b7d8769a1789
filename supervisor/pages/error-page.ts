/** Makes the error page for people, where programs get JSON: what is wrong, and where to go. Pure. */
import type { SvcError } from '../../protocol/errors.ts';
import { PAGE_KEY_HEADER } from '../../protocol/http/page-key.ts';
import { NEXT_STEPS } from '../../protocol/next-steps.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Place } from '../http/access/places.ts';
import { GATEWAY_ICON } from './page-icons.ts';
import { pagePolicy } from './page-policy.ts';

const TITLES: Record<string, string> = {
  UNAUTHORIZED: 'You are signed out',
  UNKNOWN_APP: 'There is no such app',
  NOT_FOUND: 'There is nothing at this address',
  UNKNOWN_VERSION: 'This version is gone',
  NO_ACTIVE_VERSION: 'This app has no version yet',
  MISDIRECTED: 'This address does not lead here',
  FORBIDDEN: 'This is not allowed',
  QUARANTINED: 'This app is out of service',
  LINK_ENDED: 'This link has ended',
};

/** For people in a browser; at other codes the page says what programs are told. */
const ADVICE: Record<string, string> = {
  UNAUTHORIZED: 'Sign in at the console, with the access token or a link that <code>svc open</code> prints.',
  UNKNOWN_APP: 'It may have been removed or renamed. The console lists the apps that there are.',
  NOT_FOUND: 'Check the address, or begin at the start.',
  UNKNOWN_VERSION: 'Open the address again for the version that is live.',
  NO_ACTIVE_VERSION: 'Make one live: <code>svc versions</code>, then <code>svc activate</code>.',
  LINK_ENDED: 'Or sign in, if you have an account here.',
  QUARANTINED: 'Try again later. If it does not come back, tell the person who runs it.',
};

/** In place of a message that is for who made the app. */
const SAID: Record<string, string> = {
  UNAUTHORIZED: '',
  QUARANTINED: 'It stopped again and again, so it is not started any more. What you entered before is still there.',
};

/** The same within a host's server, which has people and rights of its own. */
const ADVICE_OF_HOST: Record<string, string> = {
  UNAUTHORIZED: 'Sign in at the server that this page is part of, then open the address again.',
  FORBIDDEN: 'Ask those who run this server for what you need.',
};

/** For a person who is signed in, and opens what is no page. */
const NO_PAGE = 'A browser opens pages. The console and the app show what is here; a program sends the access token.';

const STYLE = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif;--ink:#23262b;--dim:#5e646e;--paper:#f6f5f2;--card:#fff;--accent:#b8431a}
@media(prefers-color-scheme:dark){:root{--ink:#e9e9ec;--dim:#a5abb5;--paper:#15171a;--card:#1f2226;--accent:#f08a63}}
body{margin:0;min-height:100vh;display:grid;place-items:center;background:var(--paper);color:var(--ink)}
main{box-sizing:border-box;width:min(32rem,calc(100vw - 2rem));padding:2rem;border-radius:16px;background:var(--card)}
h1{margin:.75rem 0 .5rem;font-size:1.4rem;line-height:1.25}p{margin:.5rem 0;overflow-wrap:anywhere}
.dim{color:var(--dim);font-size:.875rem}a{color:var(--accent)}nav{display:flex;flex-wrap:wrap;gap:1.25rem;margin-top:1.25rem}`;

/** Answers a navigation with the error's status. `app` is whose page was asked for, where that is known. */
export function sendErrorPage(exchange: Exchange, place: Place, error: SvcError, app?: string): void {
  exchange.send(
    error.status,
    {
      ...error.headers,
      ...pagePolicy(place),
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
    },
    errorPage(error, place, app),
  );
}

function errorPage({ code, message, status, path }: SvcError, place: Place, app = place.owner?.app): string {
  const isNoPage = path === PAGE_KEY_HEADER;
  const title = isNoPage ? 'This address is for programs and pages' : (TITLES[code] ?? 'This did not work');
  const known = isNoPage ? NO_PAGE : (place.kind === 'embedded' && ADVICE_OF_HOST[code]) || ADVICE[code];
  const step = (NEXT_STEPS as Record<string, string>)[code] ?? 'Try again in a moment.';
  const advice = known ?? marked(app === undefined ? step : step.replaceAll('<app>', app));
  const words = SAID[code] ?? message;
  const said = words === '' ? '' : `<p>${escaped(words)}</p>`;
  const isSignedOut = (code === 'UNAUTHORIZED' && !isNoPage) || code === 'LINK_ENDED';
  const links = linksOf(place, code, isSignedOut, app).map(
    ([text, address]) => `<a href="${escaped(address)}">${text}</a>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><link rel="icon" href="data:image/svg+xml,${encodeURIComponent(GATEWAY_ICON)}"><style>${STYLE}</style></head>
<body><main>${GATEWAY_ICON}<h1>${title}</h1>${said}<p>${advice}</p>
<nav>${links.join('')}</nav><p class="dim">${escaped(code)} · ${status}</p></main></body></html>
`;
}

/** Where a person goes on: the app's own start, and the console where this browser reaches it. */
function linksOf(
  { kind, base }: Place,
  code: string,
  isSignedOut: boolean,
  app: string | undefined,
): [text: string, address: string][] {
  const console = kind === 'shared' ? '/svc/' : base === null ? null : `${base}/svc/`;
  const links: [string, string][] = [];
  if (code === 'QUARANTINED') {
    links.push(['Try again', '']);
    if (console !== null && app !== undefined)
      links.push(['You run it? See why in the console', `${console}#/apps/${app}`]);
    return links;
  }
  if (kind === 'page' && code !== 'UNKNOWN_APP' && !isSignedOut) links.push(['Start of the app', '/']);
  if (console !== null) links.push([isSignedOut ? 'Sign in' : 'All apps', console]);
  return links;
}

/** A sentence of Markdown with code in it, as HTML. */
function marked(text: string): string {
  return escaped(text).replace(/`([^`]*)`/g, '<code>$1</code>');
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
