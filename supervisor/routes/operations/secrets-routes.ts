/** Serves secrets over HTTP: lists their names, sets and removes them; never returns a value (specification, "Secrets"). */
import { listSecrets, removeSecret, setSecret, showSecret } from '../../../protocol/routes/apps/secrets-rows.ts';
import { checkSecretName, type SecretRecord } from '../../../protocol/secret-names.ts';
import type { Scope } from '../../dispatch/scope.ts';
import type { Route } from '../../http/router.ts';
import { unknownSecret } from '../../secrets.ts';
import type { Services } from '../../services.ts';
import { scopeOf } from '../requests.ts';
import { serve } from '../serve-row.ts';

export function secretRoutes({ audit, scopes, secrets }: Services): Route[] {
  /** Those that it has; of a draft also the names that only the live app has. */
  const listOf = ({ app, key }: Scope): SecretRecord[] => {
    const own = secrets.list(key);
    const named = new Set(own.map(({ name }) => name));
    const others = secrets.list(app).filter(({ name }) => !named.has(name));
    const missing = others.map(({ name }): SecretRecord => ({ name, state: 'missing', updatedAt: null }));
    return [...own, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
  };
  return [
    ...serve(listSecrets, async ({ params }) => listOf(await scopeOf(scopes, params))),
    ...serve(showSecret, async ({ params }) => {
      const { name } = params;
      checkSecretName(name);
      const scope = await scopeOf(scopes, params);
      const record = listOf(scope).find((secret) => secret.name === name);
      if (record === undefined) throw unknownSecret(scope.key, name);
      return record;
    }),
    ...serve(setSecret, async ({ params, body: { value }, caller }) => {
      const { name } = params;
      const { app, key, workspace } = await scopeOf(scopes, params);
      const record = await secrets.set(key, name, value);
      await audit.record(caller, 'secret.set', app, { name, ...(workspace !== undefined && { workspace }) });
      return record;
    }),
    ...serve(removeSecret, async ({ params, caller }) => {
      const { name } = params;
      const { app, key, workspace } = await scopeOf(scopes, params);
      await secrets.remove(key, name);
      await audit.record(caller, 'secret.removed', app, { name, ...(workspace !== undefined && { workspace }) });
      return { name, deleted: true };
    }),
  ];
}
