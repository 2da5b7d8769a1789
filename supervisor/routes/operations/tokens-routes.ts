/** Makes, lists and revokes tokens for programs over HTTP (specification, "Tokens for programs"). */
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { listTokens, makeToken, revokeToken } from '../../../protocol/routes/operations/tokens-rows.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

export function tokenRoutes({ access, audit, programTokens }: Services): Route[] {
  const checkOwned = () => {
    if (!access)
      throw new SvcError('NOT_FOUND', 'The host of this gateway handles authentication; there are no tokens.');
  };
  return [
    ...serve(makeToken, async ({ body: { name, tools, apps, expiresInDays }, caller }) => {
      checkOwned();
      checkApps(apps ?? []);
      const made = await programTokens.create({ name, tools, apps, expiresInDays });
      await audit.record(caller, 'token.made', made.id, { name, tools, apps: made.apps, expiresAt: made.expiresAt });
      return made;
    }),
    ...serve(listTokens, async ({ query: { limit = LIMITS.listRows, before = null } }) => {
      checkOwned();
      return await programTokens.list({ limit, before });
    }),
    ...serve(revokeToken, async ({ params: { id }, caller }) => {
      checkOwned();
      await programTokens.revoke(id);
      await audit.record(caller, 'token.revoked', id);
      return { id, deleted: true };
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
