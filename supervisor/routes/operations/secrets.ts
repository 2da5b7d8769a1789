/** Serves secrets over HTTP: lists their names, sets and removes them; never returns a value (decisions, section 13). */
import { checkAppId } from '../../../protocol/ids.ts';
import { checkSecretName, type SecretRecord } from '../../../protocol/secrets.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import { type Params, type Route, route } from '../../http/router.ts';
import { type Secrets, unknownSecret } from '../../secrets.ts';
import type { Services } from '../../services.ts';
import { gitStoreOf } from '../authoring/drafts.ts';
import { readJson } from '../requests.ts';

/** Whose secrets an address names: `key` is the app's or draft's. */
type Owner = {
  key(params: Params): Promise<string>;
  list(key: string, app: string): SecretRecord[];
};

export function secretRoutes(services: Services): Route[] {
  const { secrets, apps } = services;
  const live: Owner = {
    key: async ({ id = '' }) => {
      checkAppId(id);
      await apps.registered(id);
      return id;
    },
    list: (key) => secrets.list(key),
  };
  const draft: Owner = {
    key: async ({ sid = '', id = '' }) => {
      checkAppId(id);
      return (await gitStoreOf(services).drafts.draft(sid, id)).key;
    },
    list: (key, app) => {
      const own = secrets.list(key);
      const named = new Set(own.map(({ name }) => name));
      const others = secrets.list(app).filter(({ name }) => !named.has(name));
      const missing = others.map(({ name }): SecretRecord => ({ name, state: 'missing', updatedAt: null }));
      return [...own, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
    },
  };
  return [
    ...routesOf('/svc/_apps/:id/secrets', live, secrets),
    ...routesOf('/svc/_draft/:sid/_apps/:id/secrets', draft, secrets),
  ];
}

function routesOf(address: string, owner: Owner, secrets: Secrets): Route[] {
  const one = `${address}/:name`;
  return [
    route('GET', address, 'manage', async (exchange, params) => {
      answerJson(exchange, 200, owner.list(await owner.key(params), params.id ?? ''), NO_STORE);
    }),
    route('GET', one, 'manage', async (exchange, params) => {
      const { id = '', name = '' } = params;
      checkSecretName(name);
      const key = await owner.key(params);
      const record = owner.list(key, id).find((secret) => secret.name === name);
      if (record === undefined) throw unknownSecret(key, name);
      answerJson(exchange, 200, record, NO_STORE);
    }),
    route('PUT', one, 'manage', async (exchange, params) => {
      const { value } = await readJson(exchange);
      const { name = '' } = params;
      answerJson(exchange, 200, await secrets.set(await owner.key(params), name, value), NO_STORE);
    }),
    route('DELETE', one, 'manage', async (exchange, params) => {
      const { name = '' } = params;
      await secrets.remove(await owner.key(params), name);
      answerJson(exchange, 200, { name, deleted: true });
    }),
  ];
}
