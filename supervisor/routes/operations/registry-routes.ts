/** Serves the registry over HTTP: apps, their versions and uploads (specification, "Registry" and "Uploads"). */
import { LIST_ICON } from '../../../protocol/http/icons.ts';
import { checkAppId, isAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  copyData,
  listApps,
  removeApp,
  repairApp,
  restartApp,
  showActivity,
  showApp,
  showIcon,
} from '../../../protocol/routes/apps/apps-rows.ts';
import {
  activateVersion,
  compareVersion,
  deleteVersion,
  downloadVersion,
  listVersionFiles,
  listVersions,
  readVersionFile,
  rollBack,
  uploadVersion,
} from '../../../protocol/routes/apps/versions-rows.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { arrayText, KeptArray } from '../../dispatch/kept-array.ts';
import { demand, may } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import type { Place } from '../../http/access/places.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { goneSignal } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { answerRaw, pathOf } from '../app/raw-files.ts';
import { pageOf, paramsOf, publicOriginOf, queryOf, refuse } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';
import { sendFile } from './transfers-routes.ts';

const PAGE = shape(listApps.query);
const UPLOAD = shape(uploadVersion.query);

export function registryRoutes(services: Services): Route[] {
  return [...appRoutes(services), ...versionRoutes(services), ...careRoutes(services)];
}

/** The records of apps, and their removal. */
function appRoutes(services: Services): Route[] {
  const { apps, audit, pages, registry, deployments } = services;
  /** Of the app's page, for a browser where the request came from; a path where all share an origin. */
  const addressOf = (place: Place, app: string): string =>
    place.base === null ? `/svc/${app}/` : `${services.access?.places.originOf(place, { app })}/`;
  const list = new KeptArray();
  return [
    ...serveRaw(listApps, async (exchange, _params, caller) => {
      const isOfAll = may(caller, 'admin', null);
      const own = registry.ids().filter((id) => isOfAll || may(caller, 'read', id));
      // After a start the files of an app are read when it is first asked for.
      const records = await deployments.records(pageOf(paramsOf(queryOf(exchange), PAGE), own, (id) => id, isAppId));
      const shown = records.map((record) => {
        const role = isOfAll ? undefined : caller.shown(record.id).user?.role;
        return { ...apps.withStatus(record), ...(role !== undefined && { role }) };
      });
      const bytes = await (isOfAll ? list : new KeptArray()).bytesOf(shown);
      exchange.send(200, {}, bytes, JSON_HEADERS);
    }),
    ...serve(showApp, async ({ params: { id }, place }) => {
      checkAppId(id);
      const record = apps.withStatus(await deployments.record(id));
      if (record.activeVersion === null) return { ...record, manifest: null };
      const page = (await registry.state(id)).active?.page;
      const manifest = await deployments.manifest(id);
      return { ...record, manifest, ...(page && { page: addressOf(place, id) }) };
    }),
    ...serveRaw(showIcon, async (exchange, { id = '' }, _caller, place) => {
      checkAppId(id);
      const wanted = queryOf(exchange).get('version');
      const version = await apps.activePage(id);
      await pages.serve(exchange, place, version, `/${LIST_ICON}`, wanted === version.summary.versionId);
    }),
    ...serve(removeApp, async ({ params: { id }, query, caller }) => {
      checkAppId(id);
      const purge = query.purge === '1';
      const removed = await deployments.remove(id, { purge });
      await audit.record(caller, 'app.removed', id, purge ? { purge } : {});
      return removed;
    }),
  ];
}

function versionRoutes(services: Services): Route[] {
  const { audit, deployments, versionFiles, log } = services;
  return [
    ...serveRaw(uploadVersion, async (exchange, { id = '' }, caller) => {
      const origin = publicOriginOf(exchange.header('host'), services);
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        checkAppId(id);
        const { activate, message = null, ifLive } = paramsOf(queryOf(exchange), UPLOAD);
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'manage', id);
        const options = { activate: activate !== '0', ifLive, message, origin, received, ...publisherIn(caller) };
        const result = await deployments.upload(id, body, options);
        await audit.record(caller, 'app.published', id, {
          version: result.versionId,
          ...(!options.activate && { live: false }),
        });
        answerJson(exchange, result.deduplicated ? 200 : 201, result);
      } finally {
        body.destroy();
      }
    }),
    ...serve(listVersions, async ({ params: { id }, query: { limit = LIMITS.listRows, before } }) => {
      checkAppId(id);
      return await deployments.versions(id, { limit, ...(before === undefined ? {} : { before }) });
    }),
    ...serve(activateVersion, async ({ params: { id }, body: { versionId }, headers: { host }, caller }) => {
      checkAppId(id);
      const active = await deployments.activate(id, versionId, { origin: publicOriginOf(host, services) });
      await audit.record(caller, 'app.published', id, { version: versionId });
      return active;
    }),
    ...serve(rollBack, async ({ params: { id }, body: { version = null }, headers: { host }, caller }) => {
      checkAppId(id);
      const active = await deployments.rollback(id, version, { origin: publicOriginOf(host, services) });
      await audit.record(caller, 'app.published', id, { version: active.activeVersion });
      return active;
    }),
    ...serve(listVersionFiles, async ({ params: { id, versionId } }) => {
      checkAppId(id);
      return await versionFiles.list(id, versionId);
    }),
    ...serveRaw(readVersionFile, async (exchange, { id = '', versionId = '', '*': rest = '' }) => {
      checkAppId(id);
      answerRaw(exchange, await versionFiles.read(id, versionId, pathOf(rest)));
    }),
    ...serveRaw(downloadVersion, async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      const gone = goneSignal(exchange);
      const name = `${id}-${versionId.slice(versionId.indexOf('/') + 1)}.tgz`;
      const send = (path: string) => sendFile(exchange, path, 'application/gzip', gone, log, name);
      await versionFiles.archive(id, versionId, send);
    }),
    ...serveRaw(compareVersion, async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      const from = queryOf(exchange).get('from') ?? undefined;
      const { files, ...rest } = await versionFiles.diff(id, versionId, from);
      const answer = `${JSON.stringify(rest).slice(0, -1)},"files":${await arrayText(files)}}`;
      exchange.send(200, NO_STORE, answer, JSON_HEADERS);
    }),
    ...serve(deleteVersion, async ({ params: { id, versionId }, caller }) => {
      checkAppId(id);
      const deleted = await deployments.deleteVersion(id, versionId);
      await audit.record(caller, 'version.deleted', id, { version: versionId });
      return deleted;
    }),
  ];
}

/** What keeps an app running, and its data whole. */
function careRoutes({ apps, deployments, activity, blobs, tree, scheduledBackups, dataRepair }: Services): Route[] {
  return [
    ...serve(copyData, async ({ params: { id } }) => {
      checkAppId(id);
      return { id, copy: await deployments.copyAside(id) };
    }),
    ...serve(repairApp, async ({ params: { id }, body: { restore, newData } }) => {
      checkAppId(id);
      if ((restore === undefined) === (newData === undefined))
        refuse('restore', 'The body needs "restore", the name or path of a backup, or "newData": true.');
      const file = restore === undefined ? null : await scheduledBackups.fileOf(restore);
      return await dataRepair.repair(id, file);
    }),
    ...serve(showActivity, async ({ params: { id } }) => {
      checkAppId(id);
      await apps.of(id).exists();
      const actor = tree.apps.get(id);
      const [points, { files, bytes, quota }] = await Promise.all([activity.of(id), blobs.usage(id)]);
      return {
        id,
        state: actor?.state ?? 'idle',
        reason: actor?.givenUp ?? null,
        lastExit: actor?.lastExit ?? null,
        restarts: actor?.restarts ?? 0,
        everyMs: LIMITS.activityMs,
        points,
        files: { files, bytes, quota },
      };
    }),
    ...serve(restartApp, async ({ params: { id } }) => {
      checkAppId(id);
      apps.restart(await apps.get(id));
      return { id, restarted: true };
    }),
  ];
}
