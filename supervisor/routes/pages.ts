/** What a browser asks for: the console, the page bridge, each app's files and change stream. */
import { SvcError } from '../../protocol/errors.ts';
import { isAppId, isVersionId } from '../../protocol/ids.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Place } from '../http/access/places.ts';
import { notFound, type Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { subscriptionOf } from './requests.ts';

/** A version's id is one segment, or the two of a tag, whose slash may be encoded. */
const PINNED = /^\/_v\/([a-z0-9_-]+\/v\d+|[^/]+)(\/.*)?$/;

export function pageRoutes(services: Services): Route[] {
  const { apps, pages, changes, consoleFiles } = services;

  const servePinned = async (
    exchange: Exchange,
    place: Place,
    id: string,
    versionId: string,
    rest: string,
  ): Promise<void> => {
    const version = isVersionId(versionId) ? await apps.retainedPage(id, versionId) : null;
    if (!version) throw new SvcError('UNKNOWN_VERSION', 'The app no longer has this version.');
    pages.serve(exchange, place, version, rest, true);
  };

  const servePage = (exchange: Exchange, place: Place, id: string, rest: string): void | Promise<void> => {
    const pinned = PINNED.exec(rest);
    if (pinned) {
      const versionId = (pinned[1] ?? '').replace(/%2f/i, '/');
      return servePinned(exchange, place, known(id), versionId, pinned[2] ?? '');
    }
    const version = apps.activePage(known(id));
    if (version instanceof Promise) return version.then((files) => pages.serve(exchange, place, files, rest));
    pages.serve(exchange, place, version, rest);
  };

  return [
    {
      method: 'GET',
      path: '/svc',
      needs: 'anyone',
      summary: 'Redirects to the console.',
      handle: (exchange) => exchange.send(308, { location: '/svc/' }, ''),
    },
    {
      method: 'GET',
      path: '/svc/',
      needs: 'anyone',
      summary: 'The console: sign in, and open the apps.',
      handle: (exchange, _params, _caller, place) => consoleFiles.serve(exchange, place, 'index.html'),
    },
    {
      method: 'GET',
      path: '/svc/_console.js',
      needs: 'anyone',
      summary: 'The script of the console.',
      handle: (exchange, _params, _caller, place) => consoleFiles.serve(exchange, place, 'console.js'),
    },
    {
      method: 'GET',
      path: '/svc/_console/:part',
      needs: 'anyone',
      summary: 'A part of the script or style of the console.',
      handle: (exchange, { part = '' }, _caller, place) => consoleFiles.servePart(exchange, place, part),
    },
    {
      method: 'GET',
      path: '/svc/_console.css',
      needs: 'anyone',
      summary: 'The style of the console.',
      handle: (exchange, _params, _caller, place) => consoleFiles.serve(exchange, place, 'console.css'),
    },
    {
      method: 'GET',
      path: '/svc/_client.js',
      needs: 'anyone',
      summary: 'The page bridge that every page of an app loads first.',
      handle: (exchange, _params, _caller, place) => pages.clientScript(exchange, place),
    },
    {
      method: 'GET',
      path: '/svc/:id/_changes',
      needs: 'stream',
      summary:
        'The change stream of an app (server-sent events; `?tables=a,b` filters, `?version=` is what the page shows).',
      handle: async (exchange, { id = '' }) => {
        const active = await apps.activeVersion(known(id));
        changes.subscribe(id, exchange, subscriptionOf(exchange, active));
      },
    },
    {
      method: 'GET',
      path: '/svc/:id/*',
      needs: 'page',
      summary: "The app's page and its other files; below `_v/<versionId>/` those of that version, cacheable for ever.",
      handle: (exchange, { id = '', '*': rest = '' }, _caller, place) => servePage(exchange, place, id, rest),
    },
  ];
}

function known(id: string): string {
  if (!isAppId(id)) throw notFound();
  return id;
}
