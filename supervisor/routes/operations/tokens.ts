/** Makes, lists and revokes tokens for programs over HTTP (specification, "Tokens for programs"). */
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { closed, integer, listOf, oneOf, text, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { integerOf, queryOf, readBody } from '../requests.ts';

const { programTokenNameChars, programTokenApps, programTokenDays } = LIMITS;
const NAME = words(programTokenNameChars);
const APPS = listOf(
  { ...text, wanted: 'the id of an app' },
  `an array of 1 to ${programTokenApps} app ids; leave it out for every app`,
);
const DAYS = integer(1, programTokenDays);
/** A limit under another name would be no limit. */
const NEW_TOKEN = shape(
  closed(
    {
      name: { ...NAME, wanted: `${NAME.wanted} that says who uses it` },
      tools: { ...oneOf('read', 'write', 'all'), wanted: '"read", "write" or "all"' },
    },
    {
      apps: { ...APPS, minItems: 1, maxItems: programTokenApps },
      expiresInDays: { ...DAYS, wanted: `${DAYS.wanted}; leave it out for never` },
    },
  ),
);

export function tokenRoutes({ access, programTokens }: Services): Route[] {
  const checkOwned = () => {
    if (!access)
      throw new SvcError('NOT_FOUND', 'The host of this gateway handles authentication; there are no tokens.');
  };
  return [
    route('POST', '/svc/_tokens', 'admin', async (exchange) => {
      checkOwned();
      const { name, tools, apps, expiresInDays } = await readBody(exchange, NEW_TOKEN);
      checkApps(apps ?? []);
      answerJson(exchange, 201, await programTokens.create({ name, tools, apps, expiresInDays }), NO_STORE);
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

/** Throws `INVALID_ID` or `RESERVED_ID` for what can be no app. */
function checkApps(apps: readonly string[]): void {
  for (const [i, app] of apps.entries()) {
    try {
      checkAppId(app);
    } catch (error) {
      const { code, message } = error as SvcError;
      throw new SvcError(code, message, { path: `apps[${i}]` });
    }
  }
}
