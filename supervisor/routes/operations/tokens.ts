/** Makes, lists and revokes tokens for programs over HTTP (decisions, section 11). */
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { GrantTools } from '../../http/access/grants.ts';
import type { NewProgramToken } from '../../http/access/program-tokens.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type Body, integerOf, optionalText, queryOf, readJson, refuse } from '../requests.ts';

const MEMBERS: readonly string[] = ['name', 'apps', 'tools', 'expiresInDays'] satisfies (keyof NewProgramToken)[];
const SHOWN_CHARS = 100;
const TOOLS: readonly unknown[] = ['read', 'write', 'all'] satisfies GrantTools[];

export function tokenRoutes({ access, programTokens }: Services): Route[] {
  const checkOwned = () => {
    if (!access)
      throw new SvcError('NOT_FOUND', 'The host of this gateway handles authentication; there are no tokens.');
  };
  return [
    route('POST', '/svc/_tokens', 'admin', async (exchange) => {
      checkOwned();
      answerJson(exchange, 201, await programTokens.create(newTokenOf(await readJson(exchange))), NO_STORE);
    }),
    route('GET', '/svc/_tokens', 'admin', async (exchange) => {
      checkOwned();
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      answerJson(exchange, 200, await programTokens.list({ limit, before: query.get('before') }), NO_STORE);
    }),
    route('DELETE', '/svc/_tokens/:id', 'admin', async (exchange, { id = '' }) => {
      checkOwned();
      await programTokens.revoke(id);
      answerJson(exchange, 200, { id, deleted: true });
    }),
  ];
}

/** Throws `BAD_REQUEST`, and `INVALID_ID` or `RESERVED_ID` for what can be no app. */
function newTokenOf(body: Body): NewProgramToken {
  // A limit under another name would be no limit.
  const unknown = Object.keys(body).find((member) => !MEMBERS.includes(member));
  if (unknown !== undefined)
    refuse(unknown.slice(0, SHOWN_CHARS), `A token takes these members and no others: ${MEMBERS.join(', ')}.`);
  const name = optionalText(body, 'name', LIMITS.programTokenNameChars);
  if (name === undefined) refuse('name', 'Give the token a name that says who uses it.');
  if (!TOOLS.includes(body.tools)) refuse('tools', '"tools" must be "read", "write" or "all".');
  return { name, apps: appsOf(body.apps), tools: body.tools as GrantTools, expiresInDays: daysOf(body.expiresInDays) };
}

function appsOf(apps: unknown): readonly string[] | undefined {
  if (apps === undefined || apps === null) return undefined;
  const most = LIMITS.programTokenApps;
  if (!Array.isArray(apps) || apps.length === 0 || apps.length > most)
    refuse('apps', `"apps" must be an array of 1 to ${most} app ids; leave it out for every app.`);
  for (const [i, app] of apps.entries()) {
    if (typeof app !== 'string') refuse(`apps[${i}]`, 'An app is named by its id, a text.');
    try {
      checkAppId(app);
    } catch (error) {
      const { code, message } = error as SvcError;
      throw new SvcError(code, message, { path: `apps[${i}]` });
    }
  }
  return apps;
}

function daysOf(days: unknown): number | undefined {
  if (days === undefined || days === null) return undefined;
  const most = LIMITS.programTokenDays;
  if (Number.isInteger(days) && (days as number) >= 1 && (days as number) <= most) return days as number;
  return refuse('expiresInDays', `"expiresInDays" must be a whole number from 1 to ${most}; leave it out for never.`);
}
