/** The registry: apps, their versions and uploads (specification, "Registry"; decisions, section 2). */
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { KeptArray } from '../dispatch/kept-array.ts';
import { demand } from '../http/access/caller.ts';
import { answerJson, JSON_HEADERS } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { integerOf, originOf, pageOf, queryOf, readJson } from './requests.ts';

export function registryRoutes(services: Services): Route[] {
  const { apps, deployments } = services;
  const list = new KeptArray();
  return [
    {
      method: 'GET',
      path: '/svc/_apps',
      needs: 'admin',
      summary: 'The registered apps, sorted by id (`?limit=`, `?after=<id>`, `?before=<id>`).',
      handle: async (exchange) => {
        const records = pageOf(queryOf(exchange), await deployments.records(), ({ id }) => id, isAppId);
        const bytes = await list.bytesOf(records.map((record) => apps.withStatus(record)));
        exchange.send(200, {}, bytes, JSON_HEADERS);
      },
    },
    {
      method: 'GET',
      path: '/svc/_apps/:id',
      needs: 'manage',
      summary: 'One app with its manifest.',
      handle: async (exchange, { id = '' }) => {
        checkAppId(id);
        const record = apps.withStatus(await deployments.record(id));
        const manifest = record.activeVersion === null ? null : await deployments.manifest(id);
        answerJson(exchange, 200, { ...record, manifest });
      },
    },
    {
      method: 'DELETE',
      path: '/svc/_apps/:id',
      needs: 'manage',
      summary: 'Stop an app, deregister it, and move its files to the trash (`?purge=1` removes them).',
      handle: async (exchange, { id = '' }) => {
        checkAppId(id);
        answerJson(exchange, 200, await deployments.remove(id, { purge: queryOf(exchange).get('purge') === '1' }));
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/upload',
      needs: 'manage',
      summary: 'Store a gzipped tar archive as a version and activate it (`?activate=0` only stores it).',
      handle: async (exchange, { id = '' }, caller) => {
        const origin = originOf(exchange, services.listening());
        const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
        try {
          checkAppId(id);
          const activate = queryOf(exchange).get('activate') !== '0';
          // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
          const received = () => demand(caller, 'manage', id);
          const result = await deployments.upload(id, body, { activate, origin, received });
          answerJson(exchange, result.deduplicated ? 200 : 201, result);
        } finally {
          body.destroy();
        }
      },
    },
    {
      method: 'GET',
      path: '/svc/_apps/:id/versions',
      needs: 'manage',
      summary: 'The versions of an app, newest first (`?limit=`, `?before=<versionId>`).',
      handle: async (exchange, { id = '' }) => {
        checkAppId(id);
        const query = queryOf(exchange);
        const before = query.get('before');
        const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
        answerJson(exchange, 200, await deployments.versions(id, { limit, ...(before === null ? {} : { before }) }));
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/activate',
      needs: 'manage',
      summary: 'Make a stored version the active one: `{ "versionId" }`.',
      handle: async (exchange, { id = '' }) => {
        const origin = originOf(exchange, services.listening());
        const { versionId } = await readJson(exchange);
        checkAppId(id);
        if (typeof versionId !== 'string')
          throw new SvcError('BAD_REQUEST', '"versionId" must be a string.', { path: 'versionId' });
        answerJson(exchange, 200, await deployments.activate(id, versionId, { origin }));
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/rollback',
      needs: 'manage',
      summary:
        'Make an older version the active one: `{ "version" }`, by default the one before; the data stays as it is.',
      handle: async (exchange, { id = '' }) => {
        const origin = originOf(exchange, services.listening());
        const { version = null } = await readJson(exchange);
        checkAppId(id);
        if (version !== null && typeof version !== 'string' && !Number.isSafeInteger(version))
          throw new SvcError('BAD_REQUEST', '"version" must be a number or a version id.', { path: 'version' });
        answerJson(exchange, 200, await deployments.rollback(id, version as number | string | null, { origin }));
      },
    },
    {
      method: 'DELETE',
      path: '/svc/_apps/:id/versions/:versionId',
      needs: 'manage',
      summary: 'Delete a version that is not active.',
      handle: async (exchange, { id = '', versionId = '' }) => {
        checkAppId(id);
        answerJson(exchange, 200, await deployments.deleteVersion(id, versionId));
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/restart',
      needs: 'manage',
      summary: 'Replace the threads of an app and its automations, and lift their quarantines.',
      handle: async (exchange, { id = '' }) => {
        checkAppId(id);
        apps.restart(await apps.get(id));
        answerJson(exchange, 200, { id, restarted: true });
      },
    },
  ];
}
