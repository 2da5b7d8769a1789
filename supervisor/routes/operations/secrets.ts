/** Serves secrets over HTTP: lists their names, sets and removes them; never returns a value (specification, "Secrets"). */
import { checkSecretName, type SecretRecord } from '../../../protocol/secrets.ts';
import type { Scope } from '../../dispatch/scope.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Route, route, withDrafts } from '../../http/router.ts';
import { unknownSecret } from '../../secrets.ts';
import type { Services } from '../../services.ts';
import { readJson, scopeOf } from '../requests.ts';

export function secretRoutes({ scopes, secrets }: Services): Route[] {
  /** Those that it has; of a draft also the names that only the live app has. */
  const listOf = ({ app, key }: Scope): SecretRecord[] => {
    const own = secrets.list(key);
    const named = new Set(own.map(({ name }) => name));
    const others = secrets.list(app).filter(({ name }) => !named.has(name));
    const missing = others.map(({ name }): SecretRecord => ({ name, state: 'missing', updatedAt: null }));
    return [...own, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
  };
  const all = '/svc/_apps/:id/secrets';
  const one = `${all}/:name`;
  return withDrafts(
    route('GET', all, 'manage', async (exchange, params) => {
      answerJson(exchange, 200, listOf(await scopeOf(scopes, params)), NO_STORE);
    }),
    route('GET', one, 'manage', async (exchange, params) => {
      const { name = '' } = params;
      checkSecretName(name);
      const scope = await scopeOf(scopes, params);
      const record = listOf(scope).find((secret) => secret.name === name);
      if (record === undefined) throw unknownSecret(scope.key, name);
      answerJson(exchange, 200, record, NO_STORE);
    }),
    route('PUT', one, 'manage', async (exchange, params) => {
      const { value } = await readJson(exchange);
      const { name = '' } = params;
      const { key } = await scopeOf(scopes, params);
      answerJson(exchange, 200, await secrets.set(key, name, value), NO_STORE);
    }),
    route('DELETE', one, 'manage', async (exchange, params) => {
      const { name = '' } = params;
      const { key } = await scopeOf(scopes, params);
      await secrets.remove(key, name);
      answerJson(exchange, 200, { name, deleted: true });
    }),
  );
}
