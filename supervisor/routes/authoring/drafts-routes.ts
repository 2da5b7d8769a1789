/**
 * Serves what only drafts have: pages that show their faults and report errors, and fresh data (specification, "Drafts"). All else is
 * served for drafts as for live apps, see `drafts` of their rows.
 */
import { SvcError } from '../../../protocol/errors.ts';
import { type BridgeOwner, bridgeTag } from '../../../protocol/http/origins.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { openDraft, PAGE_REPORT, reportErrors, resetDraft } from '../../../protocol/routes/authoring/drafts-rows.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Draft } from '../../drafts/draft.ts';
import type { Drafts } from '../../drafts/drafts.ts';
import type { PageReport } from '../../drafts/page-reports.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { Place } from '../../http/access/places.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { pagePolicy } from '../../pages/page-policy.ts';
import { redirectToFolder, sendPageError } from '../../pages/pages.ts';
import type { Services } from '../../services.ts';
import { bodyOf, parseBody, readBytes } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

const REPORT = shape(PAGE_REPORT);

export function draftRoutes(services: Services): Route[] {
  const drafts = (): Drafts => gitStoreOf(services).drafts;
  return [
    ...serve(resetDraft, ({ params: { sid, id } }) => {
      checkAppId(id);
      return drafts().resetData(sid, id);
    }),
    ...serveRaw(reportErrors, async (exchange, { sid = '', id = '' }, caller) => {
      // Only the draft's own page reports errors: at a shared origin, a live page could send them.
      if (caller.owner?.workspace !== sid || caller.owner.app !== id) throw notItsPage();
      const report = reportOf(await readBytes(exchange, LIMITS.pageErrorsBytes));
      (await drafts().draft(sid, id)).reports.take(report);
      exchange.send(204, NO_STORE, '');
    }),
    ...serveRaw(openDraft, async (exchange, { sid = '', id = '', '*': rest = '' }, _caller, place) => {
      const draft = await drafts().draft(sid, id);
      await draft.refreshed();
      if (rest === '') redirectToFolder(exchange, place);
      else if (draft.fault === null) await services.pages.serve(exchange, place, draft.files, rest);
      else sendFault(exchange, place, draft, sid, draft.fault);
    }),
  ];
}

/** With long texts cut. Throws `BAD_REQUEST` for what our script would not send. */
export function reportOf(bytes: Buffer): PageReport {
  const body = bodyOf(parseBody(bytes), REPORT);
  return REPORT.part(body) ?? body;
}

function notItsPage(): SvcError {
  return new SvcError('FORBIDDEN', 'Only a page of this draft at an address of its own may report its errors.');
}

/** A person gets a page, a program the error in its one shape. */
function sendFault(
  exchange: Exchange,
  place: Place,
  { app, version }: Draft,
  workspace: string,
  fault: SvcError,
): void {
  if (!(exchange.header('accept') ?? '').includes('text/html')) {
    sendPageError(exchange, place, fault);
    return;
  }
  exchange.send(
    fault.status,
    { ...pagePolicy(place), 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
    faultPage(fault, { app, draft: { workspace, version } }),
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
