/** Connects programs to MCP addresses over HTTP: the authorization server of OAuth (specification, "Connected programs"). */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  giveAuthorization,
  giveTokens,
  openAuthorization,
  registerClient,
  revokeTokens,
  showAuthorization,
  showIssuer,
  showResource,
} from '../../../protocol/routes/people/oauth-rows.ts';
import type { RouteRow } from '../../../protocol/routes/row.ts';
import { roleRows } from '../../deployments/deployed.ts';
import type { Exchange } from '../../edge/edge.ts';
import { APP_ROLES, type Caller, hasRole, mayGive } from '../../http/access/grants.ts';
import { PersonCaller, personIdOf } from '../../http/access/person.ts';
import type { Place } from '../../http/access/places.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { redirect } from '../../pages/pages.ts';
import { Attempts } from '../../people/attempts.ts';
import { type Authorization, authorizationOf } from '../../people/connections/authorization.ts';
import { isDocumentAddress } from '../../people/connections/client-documents.ts';
import { hostOfRedirect } from '../../people/connections/clients.ts';
import { ReusedError, type Tokens } from '../../people/connections/connections.ts';
import { OAuthError, single } from '../../people/connections/oauth-error.ts';
import { issuerAt, type Resource, resourceOf } from '../../people/connections/resources.ts';
import type { Client, Connection } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { parseBody, readBytes } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';
import { connectedTo } from './connections-routes.ts';
import { rolesOf } from './roles.ts';
import { accessOf } from './signing-in.ts';

const OAUTH = '/svc/_oauth';

export function oauthRoutes(services: Services): Route[] {
  const { accounts, audit, networkOf, registry } = services;
  /** Of one address so many may register in a while; what is counted as a failure is each of them. */
  const registrations = new Attempts();

  return [
    ...serve(showResource, ({ exchange: { path }, place }) => {
      const { issuer } = here(place);
      const address = path.slice(path.indexOf('/svc/'));
      if (resourceOf(address) === null) throw unserved();
      return {
        resource: place.origin + address,
        authorization_servers: [issuer],
        bearer_methods_supported: ['header'],
      };
    }),
    ...serve(showIssuer, ({ place }) => {
      const { issuer, console } = here(place);
      // The metadata of an issuer is at its own address.
      if (issuer !== place.origin) throw unserved();
      return {
        issuer,
        authorization_endpoint: `${console}${OAUTH}/authorize`,
        token_endpoint: `${issuer}${OAUTH}/token`,
        registration_endpoint: `${issuer}${OAUTH}/register`,
        revocation_endpoint: `${issuer}${OAUTH}/revoke`,
        response_types_supported: ['code'],
        response_modes_supported: ['query'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_methods_supported: ['none'],
        revocation_endpoint_auth_methods_supported: ['none'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true as const,
        client_id_metadata_document_supported: services.clientDocuments.areRead,
      };
    }),
    ...serveOAuth(registerClient, async (exchange) => {
      const bytes = await readBytes(exchange, LIMITS.oauthBodyBytes);
      countRegistration(networkOf(exchange));
      const client = await accounts.connections.clients.register(metadataIn(bytes));
      return {
        client_id: client.id,
        client_id_issued_at: Math.floor(client.createdAt / 1000),
        client_name: client.name,
        redirect_uris: client.redirects,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      };
    }),
    ...serveRaw(openAuthorization, (exchange, _params, _caller, place) => {
      const { console } = here(place);
      // What follows the # reaches no server, and is not in what the console sends.
      redirect(exchange, place, `${console}/svc/#authorize=${encodeURIComponent(exchange.query)}`);
    }),
    ...serve(showAuthorization, async ({ body: { query }, caller, place }) => {
      const authorization = await read(query, place);
      const { client, redirect: to, asked, answer } = authorization;
      const host = hostOfRedirect(to);
      if (asked instanceof OAuthError) {
        const back = answer({ error: asked.code, error_description: asked.toBody().error_description });
        return {
          name: client.name,
          host,
          app: null,
          workspace: null,
          roles: [],
          defined: [],
          problem: asked.message,
          back,
        };
      }
      const { roles, defined } = await rolesFor(caller, asked.resource);
      return {
        name: client.name,
        host,
        ...connectedTo(services, asked.resource.app),
        roles,
        defined,
        problem: roles.length === 0 ? nothingToGive(caller, asked.resource) : null,
        back: answer({ error: 'access_denied' }),
      };
    }),
    ...serve(giveAuthorization, async ({ body: { query, role }, caller, place }) => {
      const { client, redirect: to, asked, answer } = await read(query, place);
      if (asked instanceof OAuthError) throw new SvcError('BAD_REQUEST', asked.message, { path: 'query' });
      const { resource, challenge } = asked;
      if (!(await rolesFor(caller, resource)).roles.includes(role))
        throw new SvcError('FORBIDDEN', nothingToGive(caller, resource), { path: 'role' });
      const code = accounts.connections.agree({
        person: personIdOf(caller),
        client: client.id,
        name: client.name,
        ...resource,
        role,
        redirect: to,
        challenge,
      });
      return { url: answer({ code }) };
    }),
    ...serveOAuth(giveTokens, async (exchange) => {
      const form = await formOf(exchange);
      const tokens = await told(tokensFor(form));
      if (single(form, 'grant_type') === 'authorization_code') await record('connection.made', tokens.connection);
      return {
        access_token: tokens.access,
        token_type: 'Bearer',
        expires_in: tokens.expiresIn,
        refresh_token: tokens.refresh,
        scope: tokens.connection.role,
      };
    }),
    ...serveOAuth(revokeTokens, async (exchange) => {
      const form = await formOf(exchange);
      const ended = await accounts.connections.revoke(needed(form, 'token'), clientIn(form));
      if (ended !== null) await record('connection.ended', ended);
      return {};
    }),
  ];

  /** Answers what `work` gives, and its errors in the shape of OAuth. Each of these routes takes a body. */
  function serveOAuth(row: RouteRow, work: (exchange: Exchange) => Promise<object>): Route[] {
    return serveRaw(row, async (exchange) => {
      accessOf(services);
      try {
        answerJson(exchange, row.answer.status ?? 200, await work(exchange), NO_STORE);
      } catch (error) {
        if (!(error instanceof OAuthError)) throw error;
        answerJson(exchange, error.status, error.toBody(), { ...NO_STORE, ...error.headers });
      }
    });
  }

  /** Throws `NOT_FOUND` where nobody signs in. */
  function here(place: Place): { issuer: string; console: string } {
    const found = issuerAt(accessOf(services).places, place);
    if (found === null) throw unserved();
    return found;
  }

  function read(query: string, place: Place): Promise<Authorization> {
    const { issuer } = here(place);
    return authorizationOf(query, {
      places: accessOf(services).places,
      issuer,
      client: clientOf,
    });
  }

  /** A program that registered, or that names itself by the address of a document about it. */
  async function clientOf(id: string): Promise<Client | undefined> {
    return isDocumentAddress(id) ? await services.clientDocuments.find(id) : accounts.connections.clients.find(id);
  }

  /** Throws `temporarily_unavailable`. */
  function countRegistration(network: string): void {
    try {
      registrations.begin(null, network);
    } catch (error) {
      const { headers = {} } = error as SvcError;
      const message = `Too many programs register from here; try again in ${headers['retry-after']} s.`;
      throw new OAuthError('temporarily_unavailable', message, 429, headers);
    }
  }

  function tokensFor(form: URLSearchParams): Promise<Tokens> {
    const client = clientIn(form);
    const resource = single(form, 'resource');
    const path = resource === undefined ? undefined : URL.canParse(resource) ? new URL(resource).pathname : '';
    const grant = needed(form, 'grant_type');
    if (grant === 'authorization_code')
      return accounts.connections.exchange({
        code: needed(form, 'code'),
        client,
        redirect: single(form, 'redirect_uri'),
        verifier: needed(form, 'code_verifier'),
        path,
      });
    if (grant === 'refresh_token')
      return accounts.connections.refresh({ refresh: needed(form, 'refresh_token'), client, path });
    throw new OAuthError('unsupported_grant_type', 'The grant_type must be authorization_code or refresh_token.');
  }

  /** Records that something was used twice. */
  async function told(tokens: Promise<Tokens>): Promise<Tokens> {
    return await tokens.catch(async (error: unknown) => {
      if (error instanceof ReusedError && error.connection !== null)
        await record('connection.reused', error.connection);
      throw error;
    });
  }

  /** The program acts for who connected it. */
  async function record(action: Parameters<typeof audit.record>[1], connection: Connection): Promise<void> {
    const { person, name: program, app, role } = connection;
    const name = person === null ? undefined : accounts.people.find(person)?.name;
    const kind = person === null ? 'admin' : 'person';
    await audit.record({ kind, ...(name !== undefined && { name }) }, action, person, { program, app, role });
  }

  /**
   * What somebody may give at an address, the weakest first; `defined` are those of the app's manifest. For all apps it is any role
   * that every app has: in each app it is worth what they have there.
   */
  async function rolesFor(caller: Caller, { app }: Resource) {
    if (app === null) return { roles: [...APP_ROLES], defined: [] };
    const isLive = registry.has(app);
    if (!isLive && app === appOfKey(app)) return { roles: [], defined: [] };
    const defined = isLive ? roleRows(await rolesOf(services, app)).filter(({ id }) => hasRole(caller, id, app)) : [];
    const [viewer, ...more] = APP_ROLES.map((role) => (mayGive(caller, role, app) ? [role] : []));
    return { roles: [viewer ?? [], defined.map(({ id }) => id), ...more].flat(), defined };
  }

  function nothingToGive(caller: Caller, { app }: Resource): string {
    const id = app === null ? '' : appOfKey(app);
    if (caller instanceof PersonCaller && caller.person.role !== 'owner') return caller.refusal(app);
    return `No app "${id}" is registered.`;
  }
}

async function formOf(exchange: Exchange): Promise<URLSearchParams> {
  const type = exchange.header('content-type') ?? '';
  const bytes = await readBytes(exchange, LIMITS.oauthBodyBytes);
  if (!/^application\/x-www-form-urlencoded\b/i.test(type))
    throw new OAuthError('invalid_request', 'The body must be application/x-www-form-urlencoded.');
  return new URLSearchParams(bytes.toString());
}

function metadataIn(bytes: Buffer): Readonly<Record<string, unknown>> {
  try {
    return parseBody(bytes);
  } catch (error) {
    throw new OAuthError('invalid_client_metadata', (error as Error).message);
  }
}

function needed(form: URLSearchParams, name: string): string {
  const text = single(form, name);
  if (text === undefined || text === '') throw new OAuthError('invalid_request', `The parameter ${name} is missing.`);
  return text;
}

/** Programs have no secret: their name is enough. */
function clientIn(form: URLSearchParams): string {
  const id = single(form, 'client_id');
  if (id === undefined)
    throw new OAuthError('invalid_client', 'The parameter client_id is missing; programs have no secret here.');
  return id;
}

function unserved(): SvcError {
  return new SvcError('NOT_FOUND', 'Nobody signs in for this address; use a token.');
}
