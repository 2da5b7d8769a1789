/** The routes of pages: those of apps, the console, and the scripts that pages load (specification, "Static files"). */
import { PUSH_WORKER } from '../../notice.ts';
import { resource, row } from '../row.ts';

const SCRIPT = 'text/javascript';

/** A file of the gateway's own. */
function file<const Path extends string>(path: Path, title: string, does: string, media: string) {
  return row({ method: 'GET', path, needs: 'anyone', title, does, answer: { media } });
}

export const openConsole = file('/svc/', 'Open the console', 'Answers the [console](console.md).', 'text/html');
export const consoleScript = file('/svc/_console.js', 'Load the script of the console', 'Answers its script.', SCRIPT);
export const consoleStyle = file(
  '/svc/_console.css',
  'Load the style of the console',
  'Answers its style.',
  'text/css',
);
export const enterScript = file(
  '/svc/_enter.js',
  'Load the script of the way to a page',
  'Answers the script of the [way to a page](http-sign-in.md#open-the-way-to-a-page).',
  SCRIPT,
);
export const pushWorker = file(
  PUSH_WORKER,
  'Load the worker for notices',
  'Answers the service worker that shows [notices](notices.md#browsers). Browsers may register it at the console only.',
  SCRIPT,
);
export const bridgeScript = file(
  '/svc/_client.js',
  'Load the bridge',
  "Answers the [bridge](app-guide.md#page), which every app's page loads.",
  SCRIPT,
);
export const draftScript = file(
  '/svc/_dev.js',
  'Load the script for drafts',
  "Answers a second script for pages of drafts. It reports their errors, and shows those of the draft's handlers.",
  SCRIPT,
);

export const openGateway = row({
  method: 'GET',
  path: '/svc',
  needs: 'anyone',
  title: 'Go to the console',
  does: 'Leads to `/svc/`.',
  answer: { status: 308, headers: { location: '`/svc/`' } },
});

export const showIcon = row({
  method: 'GET',
  path: '/favicon.ico',
  needs: 'anyone',
  title: 'Load the icon',
  does: "Answers the icon of the gateway. At the origin of an app it is the app's: `favicon.ico`, else `icon.svg`, else a tile with the first letter of its id.",
  answer: { media: 'image/svg+xml' },
});

export const consolePart = row({
  method: 'GET',
  path: '/svc/_console/:part',
  needs: 'anyone',
  title: 'Load a part of the console',
  does: 'Answers a part of its script or style, which browsers keep.',
  params: { part: 'The name of the file, which says what is in it' },
  answer: { media: '*/*' },
  errors: { NOT_FOUND: '' },
});

export const readDocument = row({
  method: 'GET',
  path: '/svc/_docs/:file',
  needs: 'anyone',
  title: 'Read a document',
  does: 'Answers a document that came with the gateway, or a picture in one.',
  params: { file: 'The name of the file, such as `backup.md`' },
  answer: { media: '*/*' },
  errors: { NOT_FOUND: '' },
});

export const openPage = row({
  method: 'GET',
  path: '/svc/:id/*',
  needs: 'page',
  title: 'Open a page',
  does: 'Answers the page of an app, or one of its files: see [static files](http-api.md#static-files).',
  params: { '*': 'The path of the file, which may begin with `_v/<versionId>/`; without it the page' },
  headers: {
    'if-none-match': 'The `etag` of an earlier answer',
    range: 'The bytes to answer',
    'if-range': 'The `etag` to which `range` belongs',
  },
  answer: {
    media: '*/*',
    also: { 206: 'the bytes of `range`', 304: 'the file is unchanged', 308: 'to the address with a `/` at its end' },
    headers: { etag: 'the version of the file' },
  },
  errors: { UNKNOWN_APP: '', NO_ACTIVE_VERSION: '', UNKNOWN_VERSION: '', NOT_FOUND: '', RANGE_NOT_SATISFIABLE: '' },
  visitors: 'page',
});

export const PAGES = resource({
  name: 'Pages',
  page: 'pages',
  about: '',
  rows: [
    openPage,
    openGateway,
    openConsole,
    consoleScript,
    consoleStyle,
    consolePart,
    enterScript,
    pushWorker,
    bridgeScript,
    draftScript,
    showIcon,
    readDocument,
  ],
});
