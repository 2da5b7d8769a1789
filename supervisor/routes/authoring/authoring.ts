/** Creates and changes apps over HTTP without an editor: blank ones, templates, names, automations (decisions, section 7). */
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { AppChange, AutomationDraft } from '../../authoring/app-edits.ts';
import { type Authoring, type Staged, type Where, webhooksOf } from '../../authoring/authoring.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/access.ts';
import { publisherIn } from '../../http/access/person.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type Body, optionalText, publicOriginOf, queryOf, readJson, refuse, requiredText } from '../requests.ts';
import { gitStoreOf } from './drafts.ts';

export function authoringRoutes(services: Services): Route[] {
  const { templates, newApps } = services;
  const authoring = (): Authoring => gitStoreOf(services).authoring;
  const read = async (exchange: Exchange, caller: Caller): Promise<{ body: Body; where: Where }> => {
    const origin = publicOriginOf(exchange, services);
    const body = await readJson(exchange);
    return { body, where: { ...whereOf(body, origin), ...publisherIn(caller) } };
  };
  return [
    route('GET', '/svc/_templates', 'make', async (exchange) =>
      answerJson(exchange, 200, await templates.list(), NO_STORE),
    ),
    route('POST', '/svc/_apps', 'route', async (exchange, _params, caller) => {
      const { body, where } = await read(exchange, caller);
      const id = requiredText(body, 'id');
      demand(caller, 'make', id);
      const staged = await authoring().create(id, optionalText(body, 'name'), where);
      answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
    }),
    route('POST', '/svc/_apps/_clone', 'route', async (exchange, _params, caller) => {
      const { body, where } = await read(exchange, caller);
      const wanted = { id: optionalText(body, 'id'), name: optionalText(body, 'name') };
      demand(caller, 'make', wanted.id ?? null);
      const staged = await authoring().clone(requiredText(body, 'templateId'), wanted, where);
      answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
    }),
    route('POST', '/svc/_apps/:id/meta', 'manage', async (exchange, { id = '' }, caller) => {
      const { body, where } = await read(exchange, caller);
      checkAppId(id);
      const change = changeOf(body);
      const message = optionalText(body, 'message', LIMITS.commitMessageChars) ?? wordsOf(change);
      if (services.gitStore === null && where.publish && where.sessionId === undefined) {
        const { versionId, migrationsApplied } = await newApps.change(id, change, { ...where, message });
        answerJson(exchange, 200, { app: id, sessionId: null, staged: false, version: versionId, migrationsApplied });
        return;
      }
      answerJson(exchange, 200, shown(await authoring().change(id, change, { ...where, message })));
    }),
    route('POST', '/svc/_apps/_import', 'route', async (exchange, _params, caller) => {
      const query = queryOf(exchange);
      const origin = publicOriginOf(exchange, services);
      const body = exchange.streamBody(LIMITS.uploadBodyBytes, LIMITS.uploadTimeoutMs);
      try {
        const id = query.get('id') ?? '';
        demand(caller, 'make', id);
        const name = optionalText({ name: query.get('name') }, 'name') ?? null;
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'make', id);
        const wanted = { id, name, origin, ...publisherIn(caller) };
        answerJson(exchange, 201, await newApps.fromArchive(body, wanted, received));
      } finally {
        body.destroy();
      }
    }),
    route('POST', '/svc/_apps/_fetch', 'route', async (exchange, _params, caller) => {
      const { body, where } = await read(exchange, caller);
      const wanted = wantedIn(body, where);
      demand(caller, 'make', wanted.id);
      answerJson(exchange, 201, await newApps.fromAddress(requiredText(body, 'url'), wanted));
    }),
    route('POST', '/svc/_apps/:id/duplicate', 'manage', async (exchange, { id = '' }, caller) => {
      const { body, where } = await read(exchange, caller);
      checkAppId(id);
      const wanted = wantedIn(body, where);
      demand(caller, 'make', wanted.id);
      const { data = false } = body;
      if (typeof data !== 'boolean') refuse('data', '"data" must be true or false.');
      answerJson(exchange, 201, await newApps.duplicate(id, wanted, { data }));
    }),
    route('POST', '/svc/_automations', 'route', async (exchange, _params, caller) => {
      const { body, where } = await read(exchange, caller);
      const app = requiredText(body, 'app');
      checkAppId(app);
      demand(caller, 'manage', app);
      const id = requiredText(body, 'id');
      const staged = await authoring().createAutomation(app, { id, ...draftOf(body) }, where);
      answerJson(exchange, 201, shownAutomation(staged, id));
    }),
    route('PATCH', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { body, where } = await read(exchange, caller);
      checkAppId(app);
      const draft = draftOf(body);
      if (draft.handler === undefined && Object.keys(draft.manifest).length === 0)
        refuse('manifest', 'Say what to change: members of "manifest", or "handler".');
      const staged = await authoring().updateAutomation(app, { id, ...draft }, where);
      answerJson(exchange, 200, shownAutomation(staged, id));
    }),
    route('DELETE', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { where } = await read(exchange, caller);
      checkAppId(app);
      const staged = await authoring().deleteAutomation(app, id, where);
      answerJson(exchange, 200, { ...shown(staged), id, deleted: true });
    }),
  ];
}

/** What a new app is to be called. */
function wantedIn(body: Body, { origin, maker = null, by = null }: Where) {
  return { id: requiredText(body, 'id'), name: optionalText(body, 'name') ?? null, origin, maker, by };
}

function changeOf(body: Body): AppChange {
  const name = optionalText(body, 'name');
  const description = body.description === '' ? '' : optionalText(body, 'description');
  const icon = body.icon === null ? null : optionalText(body, 'icon', LIMITS.iconBytes);
  const open = body.public;
  if (open !== undefined && !(Array.isArray(open) && open.every((part) => typeof part === 'string')))
    refuse('public', '"public" must be a list of texts: "page", "query <name>", "action <name>".');
  const change: AppChange = {
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
    ...(icon === undefined ? {} : { icon }),
    ...(open === undefined ? {} : { public: open as string[] }),
  };
  if (Object.keys(change).length === 0)
    refuse('name', 'Say what to change: "name", "description", "icon" or "public".');
  return change;
}

/** The message of a publication that nobody wrote one for. */
const wordsOf = (change: AppChange): string => `Change ${Object.keys(change).join(', ')}`;

/** The version, where there is one, is what `publish` of a session answers. */
function shown({ app, sessionId, staged, published }: Staged): Record<string, unknown> {
  const { version, tag, sha, migrationsApplied } = published ?? {};
  return { app, sessionId, staged, ...(published === undefined ? {} : { version, tag, sha, migrationsApplied }) };
}

function shownAutomation(staged: Staged, id: string): Record<string, unknown> {
  const webhook = webhooksOf(staged).find(({ automationId }) => automationId === id);
  return { ...shown(staged), id, ...(webhook === undefined ? {} : { webhook }) };
}

function whereOf(body: Body, origin: string): Where {
  const publish = body.publish ?? false;
  if (typeof publish !== 'boolean') refuse('publish', '"publish" must be true or false.');
  const sessionId = optionalText(body, 'sessionId');
  return { ...(sessionId === undefined ? {} : { sessionId }), publish, origin };
}

function draftOf(body: Body): AutomationDraft {
  const manifest = body.manifest ?? {};
  const handler = body.handler ?? undefined;
  if (typeof manifest !== 'object' || Array.isArray(manifest))
    refuse('manifest', '"manifest" must be an object: members of automation.json.');
  if (handler !== undefined && (typeof handler !== 'string' || handler === ''))
    refuse('handler', '"handler" must be the text of handler.js.');
  return { manifest: manifest as Record<string, unknown>, ...(handler === undefined ? {} : { handler }) };
}
