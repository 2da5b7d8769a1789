/** Serves the registry over HTTP: apps, their versions and uploads (specification, "Registry" and "Uploads"). */
import type { ActivityAnswer } from '../../../protocol/answers.ts';
import { LIST_ICON } from '../../../protocol/http/icons.ts';
import { checkAppId, isAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { object, text, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { arrayText, KeptArray } from '../../dispatch/kept-array.ts';
import { demand } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import type { Place } from '../../http/access/places.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import { goneSignal } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { answerRaw, pathOf } from '../app/raw-files.ts';
import { integerOf, pageOf, paramsOf, publicOriginOf, queryOf, readBody, refuse } from '../requests.ts';
import { sendFile } from './transfers.ts';

const UPLOAD = shape(object({}, { message: words(LIMITS.textChars) }));
const ACTIVATION = shape(object({ versionId: text }));
const ROLLBACK = shape(object({}, { version: { type: ['string', 'integer'], wanted: 'a number or a version id' } }));
const REPAIR = shape(object({}, { restore: text, newData: { const: true, wanted: 'true' } }));

export function registryRoutes(services: Services): Route[] {
  /** Of the app's page, for a browser where the request came from; a path where all share an origin. */
  const addressOf = (place: Place, app: string): string =>
    place.base === null ? `/svc/${app}/` : `${services.access?.places.originOf(place, { app })}/`;
  const { apps, pages, registry, deployments, versionFiles, activity, blobs, tree, scheduledBackups, dataRepair, log } =
    services;
  const version = '/svc/_apps/:id/versions/:versionId';
  const list = new KeptArray();
  return [
    route('GET', '/svc/_apps', 'admin', async (exchange) => {
      const records = pageOf(queryOf(exchange), await deployments.records(), ({ id }) => id, isAppId);
      const bytes = await list.bytesOf(records.map((record) => apps.withStatus(record)));
      exchange.send(200, {}, bytes, JSON_HEADERS);
    }),
    route('GET', '/svc/_apps/:id', 'manage', async (exchange, { id = '' }, _caller, place) => {
      checkAppId(id);
      const record = apps.withStatus(await deployments.record(id));
      if (record.activeVersion === null) {
        answerJson(exchange, 200, { ...record, manifest: null });
        return;
      }
      const page = (await registry.state(id)).active?.page;
      const manifest = await deployments.manifest(id);
      answerJson(exchange, 200, { ...record, manifest, ...(page && { page: addressOf(place, id) }) });
    }),
    {
      ...route('GET', '/svc/_apps/:id/icon', 'manage', async (exchange, { id = '' }, _caller, place) => {
        checkAppId(id);
        const wanted = queryOf(exchange).get('version');
        const version = await apps.activePage(id);
        await pages.serve(exchange, place, version, `/${LIST_ICON}`, wanted === version.summary.versionId);
      }),
      isFile: true,
    },
    route('DELETE', '/svc/_apps/:id', 'manage', async (exchange, { id = '' }) => {
      checkAppId(id);
      answerJson(exchange, 200, await deployments.remove(id, { purge: queryOf(exchange).get('purge') === '1' }));
    }),
    route('POST', '/svc/_apps/:id/upload', 'manage', async (exchange, { id = '' }, caller) => {
      const origin = publicOriginOf(exchange, services);
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        checkAppId(id);
        const query = queryOf(exchange);
        const activate = query.get('activate') !== '0';
        const ifLive = query.get('ifLive') ?? undefined;
        const { message = null } = paramsOf(query, UPLOAD);
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'manage', id);
        const options = { activate, ifLive, message, origin, received, ...publisherIn(caller) };
        const result = await deployments.upload(id, body, options);
        answerJson(exchange, result.deduplicated ? 200 : 201, result);
      } finally {
        body.destroy();
      }
    }),
    route('GET', '/svc/_apps/:id/versions', 'manage', async (exchange, { id = '' }) => {
      checkAppId(id);
      const query = queryOf(exchange);
      const before = query.get('before');
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      answerJson(exchange, 200, await deployments.versions(id, { limit, ...(before === null ? {} : { before }) }));
    }),
    route('POST', '/svc/_apps/:id/activate', 'manage', async (exchange, { id = '' }) => {
      const origin = publicOriginOf(exchange, services);
      const { versionId } = await readBody(exchange, ACTIVATION);
      checkAppId(id);
      answerJson(exchange, 200, await deployments.activate(id, versionId, { origin }));
    }),
    route('POST', '/svc/_apps/:id/rollback', 'manage', async (exchange, { id = '' }) => {
      const origin = publicOriginOf(exchange, services);
      const { version = null } = await readBody(exchange, ROLLBACK);
      checkAppId(id);
      answerJson(exchange, 200, await deployments.rollback(id, version, { origin }));
    }),
    route('GET', `${version}/files`, 'manage', async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      answerJson(exchange, 200, await versionFiles.list(id, versionId));
    }),
    route('GET', `${version}/files/*`, 'manage', async (exchange, { id = '', versionId = '', '*': rest = '' }) => {
      checkAppId(id);
      answerRaw(exchange, await versionFiles.read(id, versionId, pathOf(rest)));
    }),
    route('GET', `${version}/archive`, 'manage', async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      const gone = goneSignal(exchange);
      const name = `${id}-${versionId.slice(versionId.indexOf('/') + 1)}.tgz`;
      const send = (path: string) => sendFile(exchange, path, 'application/gzip', gone, log, name);
      await versionFiles.archive(id, versionId, send);
    }),
    route('GET', `${version}/diff`, 'manage', async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      const from = queryOf(exchange).get('from') ?? undefined;
      const { files, ...rest } = await versionFiles.diff(id, versionId, from);
      const answer = `${JSON.stringify(rest).slice(0, -1)},"files":${await arrayText(files)}}`;
      exchange.send(200, NO_STORE, answer, JSON_HEADERS);
    }),
    route('DELETE', version, 'manage', async (exchange, { id = '', versionId = '' }) => {
      checkAppId(id);
      answerJson(exchange, 200, await deployments.deleteVersion(id, versionId));
    }),
    route('POST', '/svc/_apps/:id/copies', 'manage', async (exchange, { id = '' }) => {
      checkAppId(id);
      answerJson(exchange, 201, { id, copy: await deployments.copyAside(id) });
    }),
    route('POST', '/svc/_apps/:id/repair', 'admin', async (exchange, { id = '' }) => {
      const { restore, newData } = await readBody(exchange, REPAIR);
      checkAppId(id);
      if ((restore === undefined) === (newData === undefined))
        refuse('restore', 'The body needs "restore", the name or path of a backup, or "newData": true.');
      const file = restore === undefined ? null : await scheduledBackups.fileOf(restore);
      answerJson(exchange, 200, await dataRepair.repair(id, file));
    }),
    route('GET', '/svc/_apps/:id/activity', 'manage', async (exchange, { id = '' }) => {
      checkAppId(id);
      await apps.of(id).exists();
      const actor = tree.apps.get(id);
      const [points, { files, bytes, quota }] = await Promise.all([activity.of(id), blobs.usage(id)]);
      const answer: ActivityAnswer = {
        id,
        state: actor?.state ?? 'idle',
        reason: actor?.givenUp ?? null,
        lastExit: actor?.lastExit ?? null,
        restarts: actor?.restarts ?? 0,
        everyMs: LIMITS.activityMs,
        points,
        files: { files, bytes, quota },
      };
      answerJson(exchange, 200, answer, NO_STORE);
    }),
    route('POST', '/svc/_apps/:id/restart', 'manage', async (exchange, { id = '' }) => {
      checkAppId(id);
      apps.restart(await apps.get(id));
      answerJson(exchange, 200, { id, restarted: true });
    }),
  ];
}
