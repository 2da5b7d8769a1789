/** Serves sessions over HTTP: opening and closing, the files of their apps, diffs, publishing (specification, "Sessions"). */

import { LIMITS } from '../../../protocol/limits.ts';
import { object, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import type { GitFile } from '../../../protocol/wire/git-jobs.ts';
import type { FileConditions } from '../../../protocol/wire/jobs.ts';
import { checkDraft } from '../../authoring/draft-check.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { SessionDiff } from '../../authoring/sessions.ts';
import { type PendingWebhookOf, pendingWebhooks } from '../../automations/pending-webhooks.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import type { Exchange } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import { isSameMachine } from '../../http/access/places.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import { goneSignal } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { answerRaw, pathOf } from '../app/raw-files.ts';
import { integerOf, nameIn, publicOriginOf, queryOf, readBody, readBytes } from '../requests.ts';

const WORDS = words(LIMITS.textChars);
const NAME = words(LIMITS.sessionNameChars);
const SESSION = shape(object({}, { sessionId: WORDS, name: NAME }));
const NAME_OF_SESSION = shape(object({ name: NAME }));
const BASE = shape(object({ version: WORDS }, { folder: WORDS }));
const PUBLICATION = shape(object({}, { app: WORDS, message: words(LIMITS.commitMessageChars) }));

export function sessionRoutes(services: Services): Route[] {
  const sessions = () => gitStoreOf(services).sessions;
  const files = '/svc/_sessions/:sid/apps/:id/files';
  const base = '/svc/_sessions/:sid/apps/:id/base';
  /** The version that is live is known once the app was read; one that is only in the session has none. */
  const loaded = async (id: string): Promise<void> => void (await services.deployments.record(id).catch(() => null));
  /** Webhooks that publishing creates, of the apps whose automations differ. */
  const webhooksOf = async (sid: string, changed: SessionDiff['files']): Promise<PendingWebhookOf[]> => {
    const apps = new Set(changed.flatMap(({ app, path }) => (path.startsWith('automations/') ? [app] : [])));
    const { catalog } = services.automations;
    const found = [...apps].map((app) => pendingWebhooks(sessions().pathOf(sid, app), app, catalog));
    return (await Promise.all(found)).flat();
  };
  return [
    route('POST', '/svc/_sessions', 'manage', async (exchange) => {
      const { sessionId, name } = await readBody(exchange, SESSION);
      answerJson(exchange, 201, await sessions().create(sessionId, { name }));
    }),
    route('PATCH', '/svc/_sessions/:sid', 'admin', async (exchange, { sid = '' }) => {
      const { name } = await readBody(exchange, NAME_OF_SESSION);
      answerJson(exchange, 200, await sessions().rename(sid, name));
    }),
    route('GET', '/svc/_sessions', 'admin', async (exchange) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      answerJson(exchange, 200, await sessions().page({ limit, before: query.get('before') }), NO_STORE);
    }),
    route('DELETE', '/svc/_sessions/:sid', 'admin', async (exchange, { sid = '' }) => {
      await sessions().remove(sid);
      answerJson(exchange, 200, { sessionId: sid, deleted: true });
    }),
    route('GET', files, 'manage', async (exchange, { sid = '', id = '' }) =>
      answerJson(exchange, 200, await sessions().files(sid, id), NO_STORE),
    ),
    route('POST', files, 'manage', async (exchange, { sid = '', id = '' }, caller) => {
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'manage', id);
        answerJson(exchange, 200, await sessions().putFiles(sid, id, body, received));
      } finally {
        body.destroy();
      }
    }),
    route('GET', `${files}/*`, 'manage', async (exchange, { sid = '', id = '', '*': rest = '' }) => {
      answerRaw(exchange, await sessions().readFile(sid, id, pathOf(rest)));
    }),
    route('PUT', `${files}/*`, 'manage', async (exchange, { sid = '', id = '', '*': rest = '' }) => {
      const conditions = conditionsOf(exchange);
      const bytes = await readBytes(exchange, LIMITS.archiveFileBytes);
      const { file, created } = await sessions().putFile(sid, id, pathOf(rest), bytes, conditions);
      answerFile(exchange, created ? 201 : 200, file);
    }),
    route('DELETE', `${files}/*`, 'manage', async (exchange, { sid = '', id = '', '*': rest = '' }) => {
      const { path } = await sessions().deleteFile(sid, id, pathOf(rest), conditionsOf(exchange));
      answerJson(exchange, 200, { path, deleted: true });
    }),
    route('GET', base, 'manage', async (exchange, { sid = '', id = '' }) => {
      await loaded(id);
      answerJson(exchange, 200, { version: await sessions().baseVersion(sid, id) }, NO_STORE);
    }),
    route('PUT', base, 'manage', async (exchange, { sid = '', id = '' }) => {
      const { version, folder } = await readBody(exchange, BASE);
      await loaded(id);
      answerJson(exchange, 200, { version: await sessions().setBase(sid, id, { version, folder }) }, NO_STORE);
    }),
    route(
      'GET',
      '/svc/_sessions/:sid/apps/:id/folder',
      'admin',
      async (exchange, { sid = '', id = '' }, _caller, place) => {
        const isHere = isSameMachine(place, exchange.remoteAddress);
        const folder = await sessions().folder(sid, id);
        answerJson(exchange, 200, { folder: isHere ? folder : null }, NO_STORE);
      },
    ),
    route('GET', '/svc/_sessions/:sid/diff', 'route', async (exchange, { sid = '' }, caller) => {
      const app = queryOf(exchange).get('app');
      demand(caller, app === null ? 'admin' : 'manage', app);
      const { files, ...rest } = await sessions().diff(sid, app);
      const webhooks = await webhooksOf(sid, files);
      const text = `${JSON.stringify({ ...rest, webhooks }).slice(0, -1)},"files":${await arrayText(files)}}`;
      exchange.send(200, NO_STORE, text, JSON_HEADERS);
    }),
    route('POST', '/svc/_sessions/:sid/apps/:id/update', 'manage', async (exchange, { sid = '', id = '' }) =>
      answerJson(exchange, 200, await sessions().update(sid, id)),
    ),
    route('POST', '/svc/_sessions/:sid/apps/:id/check', 'manage', async (exchange, { sid = '', id = '' }) =>
      answerJson(exchange, 200, await checkDraft(gitStoreOf(services), sid, id), NO_STORE),
    ),
    route('POST', '/svc/_sessions/:sid/apps/:id/tests', 'admin', async (exchange, { sid = '', id = '' }) => {
      const gone = goneSignal(exchange);
      try {
        answerJson(exchange, 200, await gitStoreOf(services).tests.run(sid, id, gone), NO_STORE);
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    route('POST', '/svc/_sessions/:sid/publish', 'route', async (exchange, { sid = '' }, caller) => {
      const origin = publicOriginOf(exchange.header('host'), services);
      const { app = null, message = null } = await readBody(exchange, PUBLICATION, (body) => {
        const named = nameIn(body.app);
        demand(caller, named === null ? 'admin' : 'manage', named);
      });
      answerJson(exchange, 201, await sessions().publish(sid, { app, message, origin, ...publisherIn(caller) }));
    }),
  ];
}

function answerFile(exchange: Exchange, status: number, file: GitFile): void {
  answerJson(exchange, status, file, { etag: `"${file.sha}"` });
}

function conditionsOf(exchange: Exchange): FileConditions {
  const ifMatch = exchange.header('if-match');
  const ifNoneMatch = exchange.header('if-none-match');
  return { ...(ifMatch === undefined ? {} : { ifMatch }), ...(ifNoneMatch === undefined ? {} : { ifNoneMatch }) };
}
