/** Drafts over HTTP: previews of the apps of a session, with tools, streams, logs, settings and data of their own (decisions, section 7). */
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, draftKey } from '../../protocol/ids.ts';
import { readSettings, writeSettings } from '../../storage/settings.ts';
import type { GitStoreServices } from '../authoring/open-authoring.ts';
import type { Draft } from '../drafts/draft.ts';
import type { Drafts } from '../drafts/drafts.ts';
import { faultPage } from '../drafts/fault-page.ts';
import type { Exchange } from '../edge/edge.ts';
import { demand } from '../http/access/caller.ts';
import type { Place } from '../http/access/places.ts';
import { answerJson } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { pagePolicy, redirectToFolder, sendPageError } from '../pages/pages.ts';
import type { Services } from '../services.ts';
import { answerLogs } from './logs.ts';
import { queryOf, readJson, subscriptionOf } from './requests.ts';
import { answerTool } from './tools.ts';

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
    {
      method: 'POST',
      path: '/svc/_draft/:sid/_tool/:tool',
      needs: 'route',
      summary: 'The dispatcher on the drafts of a session: `svc_describe`, `svc_read`, `svc_write`.',
      handle: (exchange, { sid = '', tool = '' }, caller) =>
        answerTool(drafts().dispatcher(sid), exchange, tool, caller, services.log),
    },
    {
      method: 'GET',
      path: '/svc/_draft/:sid/_logs',
      needs: 'route',
      summary: 'Log entries of a draft (`?app=`, `?limit=`, `?before=`), oldest first; `?follow=1` streams new ones.',
      handle: async (exchange, { sid = '' }, caller) => {
        const app = queryOf(exchange).get('app');
        if (app === null) throw new SvcError('BAD_REQUEST', 'Name the app: ?app=<id>.', { path: 'app' });
        demand(caller, 'manage', draftKey(sid, app));
        const { key } = await drafts().draft(sid, app);
        await answerLogs(services.logs, exchange, key);
      },
    },
    {
      method: 'GET',
      path: '/svc/_draft/:sid/_apps/:id/settings',
      needs: 'settings',
      summary: "A draft's knobs, the user's preferences, and the draft's own settings.",
      handle: async (exchange, { sid = '', id = '' }) =>
        answerJson(exchange, 200, (await settings(sid, id)).answer, { 'cache-control': 'no-store' }),
    },
    {
      method: 'PUT',
      path: '/svc/_draft/:sid/_apps/:id/settings',
      needs: 'settings',
      summary: "Replace a draft's own settings with the object that is sent.",
      handle: async (exchange, { sid = '', id = '' }) => {
        const wanted = await readJson(exchange);
        const { draft, answer } = await settings(sid, id);
        const stored = await writeSettings(services.layout.app(draft.key), wanted);
        answerJson(exchange, 200, { ...answer, settings: stored });
      },
    },
    {
      method: 'POST',
      path: '/svc/_sessions/:sid/apps/:id/reset-data',
      needs: 'manage',
      summary: 'Replace the data of a draft by a fresh copy of the live data, with its migrations applied.',
      handle: async (exchange, { sid = '', id = '' }) => {
        checkAppId(id);
        answerJson(exchange, 200, await drafts().resetData(sid, id));
      },
    },
    {
      method: 'GET',
      path: '/svc/_draft/:sid/:id/_changes',
      needs: 'stream',
      summary:
        'The change stream of a draft, with `reload` when its files changed (`?version=`: of the page that asks).',
      handle: async (exchange, { sid = '', id = '' }) => {
        const draft = await drafts().draft(sid, id);
        await draft.refreshed();
        services.changes.subscribe(draft.key, exchange, subscriptionOf(exchange, draft.version));
      },
    },
    {
      method: 'GET',
      path: '/svc/_draft/:sid/:id/*',
      needs: 'page',
      summary: "The preview: a draft's page and its other files.",
      handle: async (exchange, { sid = '', id = '', '*': rest = '' }, _caller, place) => {
        const draft = await drafts().draft(sid, id);
        await draft.refreshed();
        if (rest === '') redirectToFolder(exchange, place);
        else if (draft.fault === null) services.pages.serve(exchange, place, draft.files, rest);
        else sendFault(exchange, place, draft, sid, draft.fault);
      },
    },
  ];
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

/** Looked up with each request: the table of routes is made without a gateway too. Throws `NO_GIT_STORE`. */
export function gitStoreOf({ gitStore }: Pick<Services, 'gitStore'>): NonNullable<GitStoreServices> {
  if (gitStore) return gitStore;
  throw new SvcError('NO_GIT_STORE', 'Drafts need the git store: svc serve --store git.');
}
