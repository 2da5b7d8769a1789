/** Serves browsers: the console, the page bridge, and each app's files. */
import { SvcError } from '../../../protocol/errors.ts';
import { isAppId, isVersionId } from '../../../protocol/ids.ts';
import {
  bridgeScript,
  consolePart,
  consoleScript,
  consoleStyle,
  draftScript,
  enterScript,
  openConsole,
  openGateway,
  openPage,
  pushWorker,
  readDocument,
  showIcon,
} from '../../../protocol/routes/apps/pages-rows.ts';
import type { RouteRow } from '../../../protocol/routes/row.ts';
import type { Exchange } from '../../edge/edge.ts';
import { isNavigation } from '../../http/access/fetch-metadata.ts';
import type { Place } from '../../http/access/places.ts';
import { notFound, type Route } from '../../http/router.ts';
import { sendPageError } from '../../pages/pages.ts';
import type { Services } from '../../services.ts';
import { serveRaw } from '../serve-row.ts';

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

  const own = (row: RouteRow, name: string): Route[] =>
    serveRaw(row, (exchange, _params, _caller, place) => consoleFiles.serve(exchange, place, name));

  return [
    // At the console and where all apps share an origin; at the origin of an app it is the app's.
    ...serveRaw(showIcon, (exchange, _params, _caller, place) => consoleFiles.serveIcon(exchange, place)),
    ...serveRaw(openGateway, (exchange) => exchange.send(308, { location: openConsole.path }, '')),
    ...own(openConsole, 'index.html'),
    ...own(consoleScript, 'console.js'),
    ...own(consoleStyle, 'console.css'),
    ...own(bridgeScript, 'client.js'),
    ...own(draftScript, 'dev.js'),
    ...own(enterScript, 'enter.js'),
    ...own(pushWorker, 'push.js'),
    ...serveRaw(consolePart, (exchange, { part = '' }, _caller, place) => {
      if (!CONSOLE_PART.test(part)) throw new SvcError('NOT_FOUND', 'The console has no such file.');
      return consoleFiles.serve(exchange, place, `_console/${part}`);
    }),
    ...serveRaw(readDocument, async (exchange, { file = '' }, _caller, place) => {
      if (!DOCUMENT.test(file)) throw new SvcError('NOT_FOUND', 'There is no such document.');
      await consoleFiles.serveDocument(exchange, place, file);
    }),
    ...serveRaw(openPage, (exchange, { id = '', '*': rest = '' }, _caller, place) =>
      servePage(exchange, place, id, rest),
    ),
  ];
}

function known(id: string): string {
  if (!isAppId(id)) throw notFound();
  return id;
}
