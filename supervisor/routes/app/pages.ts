/** Serves browsers: the console, the page bridge, and each app's files. */
import { SvcError } from '../../../protocol/errors.ts';
import { isAppId, isVersionId } from '../../../protocol/ids.ts';
import { PUSH_WORKER } from '../../../protocol/notices.ts';
import type { Exchange } from '../../edge/edge.ts';
import { isNavigation } from '../../http/access/fetch-metadata.ts';
import type { Place } from '../../http/access/places.ts';
import { notFound, type Route, route } from '../../http/router.ts';
import { ICON } from '../../pages/icons.ts';
import { sendPageError } from '../../pages/pages.ts';
import type { Services } from '../../services.ts';

/** A version's id is one segment, or the two of a tag, whose slash may be encoded. */
const PINNED = /^\/_v\/([a-z0-9_-]+\/v\d+|[^/]+)(\/.*)?$/;

/** Parts of the console's script, named by their content, and pictures of the templates. */
const CONSOLE_PART = /^(?:part-[A-Z0-9]{8}\.js|preview-[a-z0-9-]{1,63}\.png)$/;

/** Documents of the package and their pictures. */
const DOCUMENT = /^(?:(?:[a-z0-9-]+|README|SECURITY|CHANGELOG)\.md|[a-z0-9-]+\.(?:png|svg))$/;

export function pageRoutes(services: Services): Route[] {
  const { apps, pages, consoleFiles } = services;

  const servePinned = async (exchange: Exchange, place: Place, id: string, pinned: string, rest: string) => {
    const versionId = pinned.replace(/%2f/i, '/');
    const version = isVersionId(versionId) ? await apps.retainedPage(id, versionId) : null;
    if (!version) throw new SvcError('UNKNOWN_VERSION', 'The app no longer has this version.');
    await pages.serve(exchange, place, version, rest, true);
  };

  const servePage = async (exchange: Exchange, place: Place, id: string, rest: string): Promise<void> => {
    const pinned = PINNED.exec(rest);
    if (pinned) return servePinned(exchange, place, known(id), pinned[1] ?? '', pinned[2] ?? '');
    const refusal = apps.outOfService(known(id));
    // Its files are there: a page that is open goes on, and programs get them.
    if (refusal !== null && isNavigation(exchange)) return sendPageError(exchange, place, refusal, id);
    await pages.serve(exchange, place, await apps.activePage(id), rest);
  };

  const own = (path: string, name: string): Route =>
    route('GET', path, 'anyone', (exchange, _params, _caller, place) => consoleFiles.serve(exchange, place, name));

  return [
    // At the console and where all apps share an origin; at the origin of an app it is the app's.
    route('GET', `/${ICON}`, 'anyone', (exchange, _params, _caller, place) => consoleFiles.serveMark(exchange, place)),
    route('GET', '/svc', 'anyone', (exchange) => exchange.send(308, { location: '/svc/' }, '')),
    own('/svc/', 'index.html'),
    own('/svc/_console.js', 'console.js'),
    own('/svc/_console.css', 'console.css'),
    own('/svc/_client.js', 'client.js'),
    own('/svc/_dev.js', 'dev.js'),
    own('/svc/_enter.js', 'enter.js'),
    own(PUSH_WORKER, 'push.js'),
    route('GET', '/svc/_console/:part', 'anyone', (exchange, { part = '' }, _caller, place) => {
      if (!CONSOLE_PART.test(part)) throw new SvcError('NOT_FOUND', 'The console has no such file.');
      return consoleFiles.serve(exchange, place, `_console/${part}`);
    }),
    route('GET', '/svc/_docs/:file', 'anyone', async (exchange, { file = '' }, _caller, place) => {
      if (!DOCUMENT.test(file)) throw new SvcError('NOT_FOUND', 'There is no such document.');
      await consoleFiles.serveDocument(exchange, place, file);
    }),
    {
      ...route('GET', '/svc/:id/*', 'page', (exchange, { id = '', '*': rest = '' }, _caller, place) =>
        servePage(exchange, place, id, rest),
      ),
      visitors: 'page',
    },
  ];
}

function known(id: string): string {
  if (!isAppId(id)) throw notFound();
  return id;
}
