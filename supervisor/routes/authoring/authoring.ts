/**
 * Creates and changes apps over HTTP without an editor: blank ones, templates, names, automations (specification,
 * "Changes without an editor").
 */
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { flag, listOf, object, text, words } from '../../../protocol/shapes/schema.ts';
import { type Shape, shape } from '../../../protocol/shapes/shape.ts';
import type { AppChange } from '../../authoring/app-edits.ts';
import { type Authoring, type Staged, type Where, webhooksOf } from '../../authoring/authoring.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { publisherIn } from '../../http/access/person.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type Body, nameIn, paramsOf, publicOriginOf, queryOf, readBody, refuse } from '../requests.ts';

const WORDS = words(LIMITS.textChars);
/** Members of each body here: where the change is staged, and whether it is published. */
const IN_SESSION = { sessionId: WORDS, publish: flag };
type InSession = { sessionId?: string; publish?: boolean };
const OF_AUTOMATION = {
  manifest: { type: 'object', wanted: 'an object: members of automation.json' },
  handler: { type: 'string', minLength: 1, wanted: 'the text of handler.js' },
} as const;
const NAMED = shape(object({}, { name: WORDS }));
const NOTHING = shape(object({}, IN_SESSION));
const NEW_APP = shape(object({ id: WORDS }, { name: WORDS, ...IN_SESSION }));
const CLONE = shape(object({ templateId: WORDS }, { id: WORDS, name: WORDS, ...IN_SESSION }));
const FETCH = shape(object({ id: WORDS, url: WORDS }, { name: WORDS, ...IN_SESSION }));
const DUPLICATE = shape(object({ id: WORDS }, { name: WORDS, data: flag, ...IN_SESSION }));
const NEW_AUTOMATION = shape(object({ app: WORDS, id: WORDS }, { ...OF_AUTOMATION, ...IN_SESSION }));
const AUTOMATION = shape(object({}, { ...OF_AUTOMATION, ...IN_SESSION }));
const CHANGE = shape(
  object(
    {},
    {
      name: WORDS,
      description: { ...WORDS, pattern: '^$|\\S' },
      icon: { ...words(LIMITS.iconBytes), type: ['string', 'null'] },
      public: listOf(text, 'a list of texts: "page", "query <name>", "action <name>"'),
      message: words(LIMITS.commitMessageChars),
      ...IN_SESSION,
    },
  ),
);

export function authoringRoutes(services: Services): Route[] {
  const { templates, newApps } = services;
  const authoring = (): Authoring => gitStoreOf(services).authoring;
  const read = async <T extends InSession>(
    exchange: Exchange,
    caller: Caller,
    shape: Shape<T>,
    permit?: (body: Body) => void,
  ) => {
    const origin = publicOriginOf(exchange, services);
    const { sessionId, publish = false, ...body } = await readBody(exchange, shape, permit);
    const where: Where = { ...(sessionId === undefined ? {} : { sessionId }), publish, origin, ...publisherIn(caller) };
    return { ...body, where };
  };
  return [
    route('GET', '/svc/_templates', 'make', async (exchange) =>
      answerJson(exchange, 200, await templates.list(), NO_STORE),
    ),
    route('POST', '/svc/_apps', 'route', async (exchange, _params, caller) => {
      const { id, name, where } = await read(exchange, caller, NEW_APP, mayMake(caller));
      const staged = await authoring().create(id, name, where);
      answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
    }),
    route('POST', '/svc/_apps/_clone', 'route', async (exchange, _params, caller) => {
      const { templateId, id, name, where } = await read(exchange, caller, CLONE, mayMake(caller));
      const staged = await authoring().clone(templateId, { id, name }, where);
      answerJson(exchange, 201, { ...shown(staged), webhooks: webhooksOf(staged) });
    }),
    route('POST', '/svc/_apps/:id/meta', 'manage', async (exchange, { id = '' }, caller) => {
      const { where, message: given, ...change } = await read(exchange, caller, CHANGE);
      checkAppId(id);
      if (Object.keys(change).length === 0)
        refuse('name', 'Say what to change: "name", "description", "icon" or "public".');
      const message = given ?? wordsOf(change);
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
        const { name = null } = paramsOf(query, NAMED);
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        const received = () => demand(caller, 'make', id);
        const wanted = { id, name, origin, ...publisherIn(caller) };
        answerJson(exchange, 201, await newApps.fromArchive(body, wanted, received));
      } finally {
        body.destroy();
      }
    }),
    route('POST', '/svc/_apps/_fetch', 'route', async (exchange, _params, caller) => {
      const { id, name = null, url, where } = await read(exchange, caller, FETCH, mayMake(caller));
      answerJson(exchange, 201, await newApps.fromAddress(url, { id, name, ...makerIn(where) }));
    }),
    route('POST', '/svc/_apps/:id/duplicate', 'manage', async (exchange, { id = '' }, caller) => {
      const { id: copy, name = null, data = false, where } = await read(exchange, caller, DUPLICATE, mayMake(caller));
      checkAppId(id);
      answerJson(exchange, 201, await newApps.duplicate(id, { id: copy, name, ...makerIn(where) }, { data }));
    }),
    route('POST', '/svc/_automations', 'route', async (exchange, _params, caller) => {
      const {
        app,
        id,
        manifest = {},
        where,
        ...draft
      } = await read(exchange, caller, NEW_AUTOMATION, (body) => demand(caller, 'manage', nameIn(body.app)));
      checkAppId(app);
      const staged = await authoring().createAutomation(app, { id, manifest, ...draft }, where);
      answerJson(exchange, 201, shownAutomation(staged, id));
    }),
    route('PATCH', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { manifest = {}, where, ...draft } = await read(exchange, caller, AUTOMATION);
      checkAppId(app);
      if (draft.handler === undefined && Object.keys(manifest).length === 0)
        refuse('manifest', 'Say what to change: members of "manifest", or "handler".');
      const staged = await authoring().updateAutomation(app, { id, manifest, ...draft }, where);
      answerJson(exchange, 200, shownAutomation(staged, id));
    }),
    route('DELETE', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }, caller) => {
      const { where } = await read(exchange, caller, NOTHING);
      checkAppId(app);
      const staged = await authoring().deleteAutomation(app, id, where);
      answerJson(exchange, 200, { ...shown(staged), id, deleted: true });
    }),
  ];
}

/** For a new app of the id that the body names. */
function mayMake(caller: Caller): (body: Body) => void {
  return ({ id }) => demand(caller, 'make', nameIn(id));
}

function makerIn({ origin, maker = null, by = null }: Where) {
  return { origin, maker, by };
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
