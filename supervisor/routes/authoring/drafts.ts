/**
 * Serves drafts over HTTP: previews of the apps of a session, with their own tools, streams, logs, settings and data
 * (decisions, section 7).
 */
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId, draftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type BridgeOwner, bridgeTag } from '../../../protocol/origins.ts';
import { readSettings, writeSettings } from '../../../storage/settings.ts';
import type { GitStoreServices } from '../../authoring/open-authoring.ts';
import type { Draft } from '../../drafts/draft.ts';
import type { Drafts } from '../../drafts/drafts.ts';
import { checkPageReport } from '../../drafts/page-reports.ts';
import type { Exchange } from '../../edge/edge.ts';
import { demand } from '../../http/access/access.ts';
import type { Place } from '../../http/access/places.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import { pagePolicy } from '../../pages/page-policy.ts';
import { redirectToFolder, sendPageError } from '../../pages/pages.ts';
import type { Services } from '../../services.ts';
import { answerTool } from '../app/tools.ts';
import { answerLogs } from '../operations/system.ts';
import { parseBody, queryOf, readBytes, readJson, subscriptionOf } from '../requests.ts';

export function draftRoutes(services: Services): Route[] {
  const drafts = (): Drafts => gitStoreOf(services).drafts;

  const settings = async (session: string, id: string) => {
    checkAppId(id);
    const draft = await drafts().draft(session, id);
    await draft.refreshed();
    const { knobs } = draft.snapshot.summary;
    const [prefs, stored] = await Promise.all([
      services.preferences.read(),
      readSettings(services.layout.app(draft.key)),
    ]);
    return { draft, answer: { knobs, prefs, settings: stored } };
  };

  return [
    route('POST', '/svc/_draft/:sid/_tool/:tool', 'route', (exchange, { sid = '', tool = '' }, caller) =>
      answerTool(drafts().dispatcher(sid), exchange, tool, caller, services.log),
    ),
    route('GET', '/svc/_draft/:sid/_logs', 'route', async (exchange, { sid = '' }, caller) => {
      const app = queryOf(exchange).get('app');
      if (app === null) throw new SvcError('BAD_REQUEST', 'Name the app: ?app=<id>.', { path: 'app' });
      demand(caller, 'manage', draftKey(sid, app));
      const { key } = await drafts().draft(sid, app);
      await answerLogs(services, exchange, key);
    }),
    route('GET', '/svc/_draft/:sid/_apps/:id/settings', 'read', async (exchange, { sid = '', id = '' }) =>
      answerJson(exchange, 200, (await settings(sid, id)).answer, NO_STORE),
    ),
    route('PUT', '/svc/_draft/:sid/_apps/:id/settings', 'settings', async (exchange, { sid = '', id = '' }) => {
      const wanted = await readJson(exchange);
      const { draft, answer } = await settings(sid, id);
      const stored = await writeSettings(services.layout.app(draft.key), wanted);
      answerJson(exchange, 200, { ...answer, settings: stored });
    }),
    route('POST', '/svc/_sessions/:sid/apps/:id/reset-data', 'manage', async (exchange, { sid = '', id = '' }) => {
      checkAppId(id);
      answerJson(exchange, 200, await drafts().resetData(sid, id));
    }),
    route('POST', '/svc/_draft/:sid/:id/_errors', 'route', async (exchange, { sid = '', id = '' }, caller) => {
      // Only the draft's own page reports errors: at a shared origin, a live page could send them.
      if (caller.owner?.session !== sid || caller.owner.app !== id) throw notItsPage();
      const report = checkPageReport(parseBody(await readBytes(exchange, LIMITS.pageErrorsBytes)));
      (await drafts().draft(sid, id)).reports.take(report);
      exchange.send(204, NO_STORE, '');
    }),
    route('GET', '/svc/_draft/:sid/:id/_changes', 'stream', async (exchange, { sid = '', id = '' }) => {
      const draft = await drafts().draft(sid, id);
      await draft.refreshed();
      services.changes.subscribe(draft.key, exchange, subscriptionOf(exchange, draft.version));
      draft.reports.greet();
    }),
    route(
      'GET',
      '/svc/_draft/:sid/:id/*',
      'page',
      async (exchange, { sid = '', id = '', '*': rest = '' }, _caller, place) => {
        const draft = await drafts().draft(sid, id);
        await draft.refreshed();
        if (rest === '') redirectToFolder(exchange, place);
        else if (draft.fault === null) services.pages.serve(exchange, place, draft.files, rest);
        else sendFault(exchange, place, draft, sid, draft.fault);
      },
    ),
  ];
}

function notItsPage(): SvcError {
  return new SvcError('FORBIDDEN', 'Only a page of this draft at an address of its own may report its errors.');
}

/** A person gets a page, a program the error in its one shape. */
function sendFault(exchange: Exchange, place: Place, { app, version }: Draft, session: string, fault: SvcError): void {
  if (!(exchange.header('accept') ?? '').includes('text/html')) {
    sendPageError(exchange, place, fault);
    return;
  }
  exchange.send(
    fault.status,
    { ...pagePolicy(place), 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
    faultPage(fault, { app, draft: { session, version } }),
  );
}

/** Shows the error, and loads itself again once it is mended. */
function faultPage(error: SvcError, owner: BridgeOwner): string {
  const where = error.path === undefined || error.path === '' ? '' : `<p class="where">${escaped(error.path)}</p>`;
  // The message is about the first of them.
  const issues = (error.issues ?? [])
    .slice(1)
    .map(
      ({ path, message, line, column }) =>
        `<li><code>${escaped(path)}${line === undefined ? '' : `:${line}:${column ?? 1}`}</code> ${escaped(message)}</li>`,
    );
  return `<!doctype html>
<html lang="en">
<head>${bridgeTag(owner)}
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(owner.app)}: ${escaped(error.code)}</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 40rem; margin: 15vh auto; padding: 0 1.5rem; }
  h1 { font-size: 1.25rem; margin: 0 0 1rem; }
  code, .where { font-family: ui-monospace, monospace; font-size: 0.9em; }
  .message { white-space: pre-wrap; overflow-wrap: anywhere; }
  .where { opacity: 0.8; }
  .next { margin-top: 2rem; opacity: 0.7; }
</style>
</head>
<body>
<main>
<h1>The draft of “${escaped(owner.app)}” does not run as it is</h1>
<p class="message">${escaped(error.message)}</p>
${where}${issues.length === 0 ? '' : `<ul>${issues.join('')}</ul>`}
<p class="next"><code>${escaped(error.code)}</code> · Save a change, and this page shows the app again.</p>
</main>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Looked up with each request: the table of routes is made without a gateway too. Throws `NO_GIT_STORE`. */
export function gitStoreOf({ gitStore }: Pick<Services, 'gitStore'>): NonNullable<GitStoreServices> {
  if (gitStore) return gitStore;
  throw new SvcError('NO_GIT_STORE', 'Drafts need the git store: stop the gateway, then svc convert --store git.');
}
