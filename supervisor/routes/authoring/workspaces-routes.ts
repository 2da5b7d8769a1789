/** Serves workspaces over HTTP: opening and closing, the files of their apps, diffs, publishing (specification, "Workspaces"). */
import { LIMITS } from '../../../protocol/limits.ts';
import {
  deleteWorkspaceFile,
  listWorkspaceFiles,
  readWorkspaceFile,
  showFolder,
  writeWorkspaceFile,
  writeWorkspaceFiles,
} from '../../../protocol/routes/authoring/workspace-files-rows.ts';
import {
  checkWorkspace,
  closeWorkspace,
  compareWorkspace,
  listWorkspaces,
  openWorkspace,
  publishWorkspace,
  renameWorkspace,
  setBase,
  showBase,
  testWorkspace,
  updateWorkspace,
} from '../../../protocol/routes/authoring/workspaces-rows.ts';
import type { FileConditions } from '../../../protocol/wire/jobs.ts';
import { checkDraft } from '../../authoring/draft-check.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { WorkspaceDiff } from '../../authoring/workspaces.ts';
import { type PendingWebhookOf, pendingWebhooks } from '../../automations/pending-webhooks.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import { isSameMachine } from '../../http/access/places.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { goneSignal } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { answerRaw, pathOf } from '../app/raw-files.ts';
import { publicOriginOf, queryOf, readBytes } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

export function workspaceRoutes(services: Services): Route[] {
  const workspaces = () => gitStoreOf(services).workspaces;
  /** The version that is live is known once the app was read; one that is only in the workspace has none. */
  const loaded = async (id: string): Promise<void> => void (await services.deployments.record(id).catch(() => null));
  /** Webhooks that publishing creates, of the apps whose automations differ. */
  const webhooksOf = async (sid: string, changed: WorkspaceDiff['files']): Promise<PendingWebhookOf[]> => {
    const apps = new Set(changed.flatMap(({ app, path }) => (path.startsWith('automations/') ? [app] : [])));
    const { catalog } = services.automations;
    const found = [...apps].map((app) => pendingWebhooks(workspaces().pathOf(sid, app), app, catalog));
    return (await Promise.all(found)).flat();
  };
  /** Throws `FORBIDDEN` unless the caller manages all apps in a workspace. */
  const demandAll = async (caller: Caller, sid: string): Promise<void> => {
    if (may(caller, 'admin', null)) return;
    const apps = await workspaces().apps(sid);
    // What nobody made is any author's: another node of a cluster may have published it meanwhile.
    await services.cluster?.knowApps();
    for (const app of [null, ...apps]) demand(caller, 'manage', app);
  };
  return [
    ...serve(openWorkspace, ({ body: { sessionId, name } }) => workspaces().create(sessionId, { name })),
    ...serve(renameWorkspace, async ({ params: { sid }, body: { name }, caller }) => {
      await demandAll(caller, sid);
      return await workspaces().rename(sid, name);
    }),
    ...serve(listWorkspaces, async ({ query: { limit = LIMITS.listRows, before = null }, caller }) => {
      const isOfAll = may(caller, 'admin', null);
      if (!isOfAll) await services.cluster?.knowApps();
      const isShown = ({ apps }: { apps: readonly string[] }) =>
        isOfAll || (apps.length > 0 && apps.every((app) => may(caller, 'manage', app)));
      return await workspaces().page({ limit, before, isShown });
    }),
    ...serve(closeWorkspace, async ({ params: { sid }, caller }) => {
      await demandAll(caller, sid);
      await workspaces().remove(sid);
      return { sessionId: sid, deleted: true };
    }),
    ...serve(listWorkspaceFiles, ({ params: { sid, id } }) => workspaces().files(sid, id)),
    ...serveRaw(writeWorkspaceFiles, async (exchange, { sid = '', id = '' }, caller) => {
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'manage', id);
        answerJson(exchange, 200, await workspaces().putFiles(sid, id, body, received), NO_STORE);
      } finally {
        body.destroy();
      }
    }),
    ...serveRaw(readWorkspaceFile, async (exchange, { sid = '', id = '', '*': rest = '' }) => {
      answerRaw(exchange, await workspaces().readFile(sid, id, pathOf(rest)));
    }),
    ...serveRaw(writeWorkspaceFile, async (exchange, { sid = '', id = '', '*': rest = '' }) => {
      const conditions = conditionsOf((name) => exchange.header(name));
      const bytes = await readBytes(exchange, LIMITS.archiveFileBytes);
      const { file, created } = await workspaces().putFile(sid, id, pathOf(rest), bytes, conditions);
      answerJson(exchange, created ? 201 : 200, file, { etag: `"${file.sha}"` });
    }),
    ...serve(deleteWorkspaceFile, async ({ params: { sid, id, '*': rest }, headers }) => {
      const { path } = await workspaces().deleteFile(
        sid,
        id,
        pathOf(rest),
        conditionsOf((name) => headers[name]),
      );
      return { path, deleted: true };
    }),
    ...serve(showBase, async ({ params: { sid, id } }) => {
      await loaded(id);
      return { version: await workspaces().baseVersion(sid, id) };
    }),
    ...serve(setBase, async ({ params: { sid, id }, body: { version, folder } }) => {
      await loaded(id);
      return { version: await workspaces().setBase(sid, id, { version, folder }) };
    }),
    ...serve(showFolder, async ({ params: { sid, id }, exchange, place }) => {
      // Another node of a cluster may be at another machine.
      const isHere = exchange.clientAddress === null && isSameMachine(place, exchange.remoteAddress);
      const folder = await workspaces().folder(sid, id);
      return { folder: isHere ? folder : null };
    }),
    ...serveRaw(compareWorkspace, async (exchange, { sid = '' }, caller) => {
      const app = queryOf(exchange).get('app');
      demand(caller, app === null ? 'admin' : 'manage', app);
      const { files, ...rest } = await workspaces().diff(sid, app);
      const webhooks = await webhooksOf(sid, files);
      const text = `${JSON.stringify({ ...rest, webhooks }).slice(0, -1)},"files":${await arrayText(files)}}`;
      exchange.send(200, NO_STORE, text, JSON_HEADERS);
    }),
    ...serve(updateWorkspace, ({ params: { sid, id } }) => workspaces().update(sid, id)),
    ...serve(checkWorkspace, ({ params: { sid, id } }) => checkDraft(gitStoreOf(services), sid, id)),
    ...serveRaw(testWorkspace, async (exchange, { sid = '', id = '' }) => {
      const gone = goneSignal(exchange);
      try {
        answerJson(exchange, 200, await gitStoreOf(services).tests.run(sid, id, gone), NO_STORE);
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    ...serve(publishWorkspace, async ({ params: { sid }, body: { app = null, message = null }, headers, caller }) => {
      const origin = publicOriginOf(headers.host, services);
      const result = await workspaces().publish(sid, { app, message, origin, ...publisherIn(caller) });
      await services.audit.record(caller, 'app.published', result.id, { version: result.tag });
      return result;
    }),
  ];
}

/** `headerOf` reads those of the request. */
function conditionsOf(headerOf: (name: string) => string | undefined): FileConditions {
  const [ifMatch, ifNoneMatch] = [headerOf('if-match'), headerOf('if-none-match')];
  return { ...(ifMatch === undefined ? {} : { ifMatch }), ...(ifNoneMatch === undefined ? {} : { ifNoneMatch }) };
}
