/** Making and changing apps without an editor: blank ones, templates, names, automations (decisions, section 7). */
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { type Authoring, type Staged, type Where, webhooksOf } from '../authoring/authoring.ts';
import type { AutomationDraft } from '../authoring/automation-files.ts';
import type { Templates } from '../authoring/templates.ts';
import type { Exchange } from '../edge/edge.ts';
import { demand } from '../http/access/caller.ts';
import { answerJson } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { type Body, optionalText, originOf, readJson } from './requests.ts';

export type AuthoringRoutesOptions = {
  /** Throws `NO_GIT_STORE` on the other backend. */
  authoring(): Authoring;
  templates: Templates;
  /** What listens; null when a host owns the server. */
  listening(): { url: string } | null;
};

export function authoringRoutes({ authoring, templates, listening }: AuthoringRoutesOptions): Route[] {
  const read = async (exchange: Exchange): Promise<{ body: Body; where: Where }> => {
    const origin = originOf(exchange, listening());
    const body = await readJson(exchange);
    return { body, where: whereOf(body, origin) };
  };
  return [
    {
      method: 'GET',
      path: '/svc/_templates',
      needs: 'admin',
      summary: 'The templates that apps are started from.',
      handle: async (exchange) => answerJson(exchange, 200, await templates.list(), { 'cache-control': 'no-store' }),
    },
    {
      method: 'POST',
      path: '/svc/_apps',
      needs: 'admin',
      summary: 'Make a blank app: `{ "id", "name"?, "sessionId"?, "publish"? }`.',
      handle: async (exchange) => {
        const { body, where } = await read(exchange);
        const staged = await authoring().create(requiredText(body, 'id'), optionalText(body, 'name'), where);
        answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/_clone',
      needs: 'admin',
      summary: 'Make an app from a template: `{ "templateId", "id"?, "name"?, "sessionId"?, "publish"? }`.',
      handle: async (exchange) => {
        const { body, where } = await read(exchange);
        const wanted = { id: optionalText(body, 'id'), name: optionalText(body, 'name') };
        const staged = await authoring().clone(requiredText(body, 'templateId'), wanted, where);
        answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/meta',
      needs: 'manage',
      summary: 'Change an app\'s name or description: `{ "name"?, "description"?, "sessionId"?, "publish"? }`.',
      handle: async (exchange, { id = '' }) => {
        const { body, where } = await read(exchange);
        checkAppId(id);
        const name = optionalText(body, 'name');
        const description = body.description === '' ? '' : optionalText(body, 'description');
        if (name === undefined && description === undefined)
          throw new SvcError('BAD_REQUEST', 'Say what to change: "name" or "description".', { path: 'name' });
        const change = {
          ...(name === undefined ? {} : { name }),
          ...(description === undefined ? {} : { description }),
        };
        answerJson(exchange, 200, shown(await authoring().rename(id, change, where)));
      },
    },
    {
      method: 'POST',
      path: '/svc/_automations',
      needs: 'route',
      summary: 'Make an automation: `{ "app", "id", "manifest", "handler"?, "sessionId"?, "publish"? }`.',
      handle: async (exchange, _params, caller) => {
        const { body, where } = await read(exchange);
        const app = requiredText(body, 'app');
        checkAppId(app);
        demand(caller, 'manage', app);
        const id = requiredText(body, 'id');
        const staged = await authoring().createAutomation(app, { id, ...draftOf(body) }, where);
        const webhook = webhooksOf(staged).find(({ automationId }) => automationId === id);
        answerJson(exchange, 201, { ...shown(staged), id, ...(webhook === undefined ? {} : { webhook }) });
      },
    },
    {
      method: 'PATCH',
      path: '/svc/_automations/:app/:id',
      needs: 'manage',
      summary:
        'Change members of an automation\'s manifest, or its handler: `{ "manifest"?, "handler"?, "sessionId"?, "publish"? }`.',
      handle: async (exchange, { app = '', id = '' }) => {
        const { body, where } = await read(exchange);
        checkAppId(app);
        if (isNothing(body))
          throw new SvcError('BAD_REQUEST', 'Say what to change: members of "manifest", or "handler".', {
            path: 'manifest',
          });
        const staged = await authoring().updateAutomation(app, { id, ...draftOf(body) }, where);
        const webhook = webhooksOf(staged).find(({ automationId }) => automationId === id);
        answerJson(exchange, 200, { ...shown(staged), id, ...(webhook === undefined ? {} : { webhook }) });
      },
    },
    {
      method: 'DELETE',
      path: '/svc/_automations/:app/:id',
      needs: 'manage',
      summary: 'Remove an automation: `{ "sessionId"?, "publish"? }`.',
      handle: async (exchange, { app = '', id = '' }) => {
        const { where } = await read(exchange);
        checkAppId(app);
        const staged = await authoring().deleteAutomation(app, id, where);
        answerJson(exchange, 200, { ...shown(staged), id, deleted: true });
      },
    },
  ];
}

/** The version, where there is one, is what `publish` of a session answers. */
function shown({ app, sessionId, staged, published }: Staged): Record<string, unknown> {
  const { version, tag, sha, migrationsApplied } = published ?? {};
  return { app, sessionId, staged, ...(published === undefined ? {} : { version, tag, sha, migrationsApplied }) };
}

function whereOf(body: Body, origin: string): Where {
  const publish = body.publish ?? false;
  if (typeof publish !== 'boolean')
    throw new SvcError('BAD_REQUEST', '"publish" must be true or false.', { path: 'publish' });
  const sessionId = optionalText(body, 'sessionId');
  return { ...(sessionId === undefined ? {} : { sessionId }), publish, origin };
}

function isNothing(body: Body): boolean {
  const { manifest, handler } = draftOf(body);
  return handler === undefined && Object.keys(manifest).length === 0;
}

function draftOf(body: Body): AutomationDraft {
  const manifest = body.manifest ?? {};
  const handler = body.handler ?? undefined;
  if (typeof manifest !== 'object' || Array.isArray(manifest))
    throw new SvcError('BAD_REQUEST', '"manifest" must be an object: members of automation.json.', {
      path: 'manifest',
    });
  if (handler !== undefined && (typeof handler !== 'string' || handler === ''))
    throw new SvcError('BAD_REQUEST', '"handler" must be the text of handler.js.', { path: 'handler' });
  return { manifest: manifest as Record<string, unknown>, ...(handler === undefined ? {} : { handler }) };
}

function requiredText(body: Body, name: string): string {
  const value = optionalText(body, name);
  if (value === undefined) throw new SvcError('BAD_REQUEST', `"${name}" must be a text.`, { path: name });
  return value;
}
