/** Sessions over HTTP: opening and closing them, the files of their apps, what they change, publishing (decisions, section 7). */
import { SvcError } from '../../protocol/errors.ts';
import type { GitFile } from '../../protocol/git-jobs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FileConditions } from '../../protocol/session-files.ts';
import type { Sessions } from '../authoring/sessions.ts';
import { arrayText } from '../dispatch/kept-array.ts';
import type { Exchange } from '../edge/edge.ts';
import { demand } from '../http/access/caller.ts';
import { answerJson, JSON_HEADERS } from '../http/answers.ts';
import { noneMatch } from '../http/conditional.ts';
import type { Route } from '../http/router.ts';
import { integerOf, optionalText, originOf, queryOf, readBytes, readJson } from './requests.ts';

export type SessionRoutesOptions = {
  /** Throws `NO_GIT_STORE` on the other backend. */
  sessions(): Sessions;
  /** What listens; null when a host owns the server. */
  listening(): { url: string } | null;
};

const NOT_STORED = { 'cache-control': 'no-store' };
/** Sent as a download that nothing runs: what is served to browsers is the draft's own address. */
const RAW = {
  'content-type': 'application/octet-stream',
  'content-disposition': 'attachment',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'no-cache',
};

export function sessionRoutes({ sessions, listening }: SessionRoutesOptions): Route[] {
  const files = '/svc/_sessions/:sid/apps/:id/files';
  return [
    {
      method: 'POST',
      path: '/svc/_sessions',
      needs: 'manage',
      summary: 'Open a session, in which apps are changed before they are published: `{ "sessionId"? }`.',
      handle: async (exchange) => {
        const body = await readJson(exchange);
        answerJson(exchange, 201, await sessions().create(optionalText(body, 'sessionId')));
      },
    },
    {
      method: 'GET',
      path: '/svc/_sessions',
      needs: 'admin',
      summary:
        'The open sessions with the apps that were taken into them, newest first (`?limit=`, `?before=<sessionId>`).',
      handle: async (exchange) => {
        const query = queryOf(exchange);
        const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
        answerJson(exchange, 200, await sessions().page({ limit, before: query.get('before') }), NOT_STORED);
      },
    },
    {
      method: 'DELETE',
      path: '/svc/_sessions/:sid',
      needs: 'admin',
      summary: 'Close a session; what it has not published is gone.',
      handle: async (exchange, { sid = '' }) => {
        await sessions().remove(sid);
        answerJson(exchange, 200, { sessionId: sid, deleted: true });
      },
    },
    {
      method: 'GET',
      path: files,
      needs: 'manage',
      summary: 'The files of an app in a session.',
      handle: async (exchange, { sid = '', id = '' }) =>
        answerJson(exchange, 200, await sessions().files(sid, id), NOT_STORED),
    },
    {
      method: 'GET',
      path: `${files}/*`,
      needs: 'manage',
      summary: "One file's bytes, with its ETag.",
      handle: async (exchange, { sid = '', id = '', '*': rest = '' }) => {
        const { sha, bytes } = await sessions().readFile(sid, id, pathOf(rest));
        const etag = `"${sha}"`;
        if (noneMatch(exchange.header('if-none-match'), etag)) exchange.send(304, { ...RAW, etag }, '');
        else exchange.send(200, { ...RAW, etag }, Buffer.from(bytes));
      },
    },
    {
      method: 'PUT',
      path: `${files}/*`,
      needs: 'manage',
      summary: 'Write a file; `If-Match` with its ETag keeps from overwriting what somebody else wrote.',
      handle: async (exchange, { sid = '', id = '', '*': rest = '' }) => {
        const conditions = conditionsOf(exchange);
        const bytes = await readBytes(exchange, LIMITS.archiveFileBytes);
        const { file, created } = await sessions().putFile(sid, id, pathOf(rest), bytes, conditions);
        answerFile(exchange, created ? 201 : 200, file);
      },
    },
    {
      method: 'DELETE',
      path: `${files}/*`,
      needs: 'manage',
      summary: 'Delete a file; `If-Match` is honoured.',
      handle: async (exchange, { sid = '', id = '', '*': rest = '' }) => {
        const { path } = await sessions().deleteFile(sid, id, pathOf(rest), conditionsOf(exchange));
        answerJson(exchange, 200, { path, deleted: true });
      },
    },
    {
      method: 'GET',
      path: '/svc/_sessions/:sid/diff',
      needs: 'route',
      summary: 'What a session changes against what is published, as patches; `?app=` for one app.',
      handle: async (exchange, { sid = '' }, caller) => {
        const app = queryOf(exchange).get('app');
        demand(caller, app === null ? 'admin' : 'manage', app);
        const { files, ...rest } = await sessions().diff(sid, app);
        const text = `${JSON.stringify(rest).slice(0, -1)},"files":${await arrayText(files)}}`;
        exchange.send(200, NOT_STORED, text, JSON_HEADERS);
      },
    },
    {
      method: 'POST',
      path: '/svc/_sessions/:sid/apps/:id/update',
      needs: 'manage',
      summary: 'Take what was published of an app meanwhile into a session; lines that both changed are marked.',
      handle: async (exchange, { sid = '', id = '' }) => answerJson(exchange, 200, await sessions().update(sid, id)),
    },
    {
      method: 'POST',
      path: '/svc/_sessions/:sid/publish',
      needs: 'route',
      summary: 'Publish an app of the session as its next version: `{ "app"?, "message"? }`.',
      handle: async (exchange, { sid = '' }, caller) => {
        const origin = originOf(exchange, listening());
        const body = await readJson(exchange);
        const app = optionalText(body, 'app') ?? null;
        demand(caller, app === null ? 'admin' : 'manage', app);
        const message = optionalText(body, 'message', LIMITS.commitMessageChars) ?? null;
        answerJson(exchange, 201, await sessions().publish(sid, { app, message, origin }));
      },
    },
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

/** `rest` is what follows `files`, undecoded. */
function pathOf(rest: string): string {
  try {
    return decodeURIComponent(rest.slice(1));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The address has a malformed percent-encoding.');
  }
}
