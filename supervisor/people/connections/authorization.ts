/** Reads what a program asks a person for, and where it may be answered (specification, "Connected programs"). */
import { SvcError } from '../../../protocol/errors.ts';
import type { Places } from '../../http/access/places.ts';
import type { Client } from '../records.ts';
import { isRedirectOf } from './clients.ts';
import { OAuthError, single } from './oauth-error.ts';
import { issuerAt, type Resource, resourceOf } from './resources.ts';

/** `asked` is what it asks for, or what is wrong with that. */
export type Authorization = {
  readonly client: Client;
  readonly redirect: string;
  readonly asked: { readonly resource: Resource; readonly challenge: string } | OAuthError;
  /** The address that takes an answer to the program. */
  answer(parameters: Readonly<Record<string, string>>): string;
};

type Terms = {
  places: Places;
  /** Who answers where the address of the resource does not say it. */
  issuer: string;
  client(id: string): Promise<Client | undefined>;
};

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/**
 * The request in the query string of the authorization endpoint. Rejects with `BAD_REQUEST` where it is not known whose it is, or
 * where its answer would go: the browser then goes nowhere.
 */
export async function authorizationOf(query: string, { places, issuer, client: find }: Terms): Promise<Authorization> {
  const given = new URLSearchParams(query);
  const client = await find(onlyOne(given, 'client_id'));
  if (client === undefined)
    throw refused(
      'client_id',
      'This gateway does not know the program, or not any more: it has been unused for long. Remove the connection in the program, and connect it again.',
    );
  const redirect = onlyOne(given, 'redirect_uri');
  if (!isRedirectOf(client, redirect))
    throw refused('redirect_uri', `“${client.name}” did not register the address to which it wants an answer.`);
  let by = issuer;
  const asked = (): Authorization['asked'] => {
    try {
      const found = resourceIn(given, places);
      by = found.issuer;
      checkRequest(given);
      return { resource: found.resource, challenge: challengeIn(given) };
    } catch (error) {
      if (error instanceof OAuthError) return error;
      throw error;
    }
  };
  const state = given.get('state');
  return {
    client,
    redirect,
    asked: asked(),
    answer: (parameters) => {
      const answer = new URLSearchParams({ ...parameters, ...(state !== null && { state }), iss: by });
      return `${redirect}${redirect.includes('?') ? '&' : '?'}${answer}`;
    },
  };
}

function onlyOne(given: URLSearchParams, name: string): string {
  const [text, more] = given.getAll(name);
  if (text === undefined || text === '' || more !== undefined)
    throw refused(name, `The program must send ${name} once.`);
  return text;
}

/** The MCP address that it asks for, which this gateway has (RFC 8707), and who issues tokens for it. */
function resourceIn(given: URLSearchParams, places: Places): { resource: Resource; issuer: string } {
  const text = single(given, 'resource') ?? '';
  const url = URL.canParse(text) ? new URL(text) : null;
  const resource = url === null || url.search !== '' || url.hash !== '' ? null : resourceOf(url.pathname);
  const place = url === null || resource === null ? null : placeOf(places, url);
  const here = place === null ? null : issuerAt(places, place);
  if (resource === null || here === null)
    throw new OAuthError('invalid_target', 'The resource must be an MCP address of this gateway.');
  return { resource, issuer: here.issuer };
}

function placeOf(places: Places, { host, origin }: URL) {
  try {
    const place = places.of(host);
    return place.origin === origin ? place : null;
  } catch {
    return null;
  }
}

function checkRequest(given: URLSearchParams): void {
  for (const name of ['response_type', 'response_mode', 'state', 'scope']) single(given, name);
  if (given.get('response_type') !== 'code')
    throw new OAuthError('unsupported_response_type', 'The response_type must be "code".');
  if ((given.get('response_mode') ?? 'query') !== 'query')
    throw new OAuthError('invalid_request', 'The response_mode must be "query".');
}

function challengeIn(given: URLSearchParams): string {
  const challenge = single(given, 'code_challenge') ?? '';
  if (single(given, 'code_challenge_method') !== 'S256' || !CHALLENGE.test(challenge))
    throw new OAuthError('invalid_request', 'A code_challenge with the code_challenge_method S256 is needed (PKCE).');
  return challenge;
}

function refused(path: string, message: string): SvcError {
  return new SvcError('BAD_REQUEST', message, { path });
}
