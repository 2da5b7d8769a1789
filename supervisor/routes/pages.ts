/** What a browser asks for: the console, the page bridge, each app's files and change stream, and the session cookie. */
import { SvcError } from '../../protocol/errors.ts';
import { isAppId, isVersionId } from '../../protocol/ids.ts';
import { answerJson } from '../answers.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Route } from '../router.ts';
import type { Services } from '../services.ts';
import { queryOf } from './requests.ts';

/** A version's id is one segment, or the two of a tag, whose slash may be encoded. */
const PINNED = /^\/_v\/([a-z0-9_-]+\/v\d+|[^/]+)(\/.*)?$/;

export function pageRoutes(services: Services): Route[] {
  const { apps, pages, changes, access, consoleFiles } = services;

  const servePinned = async (exchange: Exchange, id: string, versionId: string, rest: string): Promise<void> => {
    const version = isVersionId(versionId) ? await apps.retainedPage(id, versionId) : null;
    if (!version) throw new SvcError('UNKNOWN_VERSION', 'The app has no such version any more.');
    pages.serve(exchange, version, rest, true);
  };

  const servePage = (exchange: Exchange, id: string, rest: string): void | Promise<void> => {
    const pinned = PINNED.exec(rest);
    if (pinned) return servePinned(exchange, known(id), (pinned[1] ?? '').replace(/%2f/i, '/'), pinned[2] ?? '');
    const version = apps.activePage(known(id));
    if (version instanceof Promise) return version.then((files) => pages.serve(exchange, files, rest));
    pages.serve(exchange, version, rest);
  };

  return [
    {
      method: 'GET',
      path: '/svc',
      open: true,
      summary: 'Redirects to the console.',
      handle: (exchange) => exchange.send(308, { location: '/svc/' }, ''),
    },
    {
      method: 'GET',
      path: '/svc/',
      open: true,
      summary: 'The console: sign in, and open the apps.',
      handle: (exchange) => consoleFiles.serve(exchange, 'index.html'),
    },
    {
      method: 'GET',
      path: '/svc/_console.js',
      open: true,
      summary: 'The script of the console.',
      handle: (exchange) => consoleFiles.serve(exchange, 'console.js'),
    },
    {
      method: 'GET',
      path: '/svc/_console/:part',
      open: true,
      summary: 'A part of the script or style of the console.',
      handle: (exchange, { part = '' }) => consoleFiles.servePart(exchange, part),
    },
    {
      method: 'GET',
      path: '/svc/_console.css',
      open: true,
      summary: 'The style of the console.',
      handle: (exchange) => consoleFiles.serve(exchange, 'console.css'),
    },
    {
      method: 'GET',
      path: '/svc/_client.js',
      open: true,
      summary: 'The page bridge that every page of an app loads first.',
      handle: (exchange) => pages.clientScript(exchange),
    },
    {
      method: 'POST',
      path: '/svc/_session',
      summary: 'Sets the session cookie, so that a browser can open pages and streams.',
      handle: (exchange) => {
        if (!access)
          throw new SvcError('NOT_FOUND', 'The host of this gateway owns authentication; there are no sessions here.');
        answerJson(exchange, 200, { ok: true }, { 'set-cookie': access.issueSession(), 'cache-control': 'no-store' });
      },
    },
    {
      method: 'GET',
      path: '/svc/:id/_changes',
      summary:
        'The change stream of an app (server-sent events; `?tables=a,b` filters, `?version=` is what the page shows).',
      handle: async (exchange, { id = '' }) => {
        const active = await apps.activeVersion(known(id));
        const query = queryOf(exchange);
        const tables = query.get('tables')?.split(',').filter(Boolean);
        const shown = query.get('version');
        const lastEventId = exchange.header('last-event-id');
        changes.subscribe(id, exchange, {
          ...(tables ? { tables } : {}),
          ...(lastEventId === undefined ? {} : { lastEventId }),
          stale: shown !== null && active !== null && shown !== active,
        });
      },
    },
    {
      method: 'GET',
      path: '/svc/:id/*',
      summary: "The app's page and its other files; below `_v/<versionId>/` those of that version, cacheable for ever.",
      handle: (exchange, { id = '', '*': rest = '' }) => servePage(exchange, id, rest),
    },
  ];
}

function known(id: string): string {
  if (!isAppId(id)) throw new SvcError('UNKNOWN_APP', `No app is registered as "${id.slice(0, 80)}".`);
  return id;
}
