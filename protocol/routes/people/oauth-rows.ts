/** The routes by which programs are connected to MCP addresses by signing in (specification, "Connected programs"). */
import { LIMITS } from '../../limits.ts';
import { count, flag, listOf, object, orNull, text, textOrNull } from '../../shapes/schema.ts';
import { DEFINED_ROLE } from '../apps/apps-rows.ts';
import { TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { APP_ROLE, HOSTED } from './pieces.ts';

/** What the address of an MCP server is put behind to learn how to sign in. */
export const PROTECTED_RESOURCE = '/.well-known/oauth-protected-resource';
const UNSERVED = { NOT_FOUND: 'nobody signs in for this address' };
const FORM = 'application/x-www-form-urlencoded';

/** Errors of OAuth. */
const FAULT = object({ error: { ...text, says: 'A code of OAuth' }, error_description: text });
const FAULTS = { 400: 'With an error of OAuth' };
const CLIENT_ID = { ...text, says: 'By which the program names itself from now on' };

export const showResource = row({
  method: 'GET',
  path: `${PROTECTED_RESOURCE}/svc/*`,
  needs: 'anyone',
  title: 'Show how to sign in at an MCP address',
  does: 'Answers who gives tokens for an MCP address (RFC 9728). It says nothing of whether there is such an app.',
  params: { '*': 'What follows `/svc/` in the MCP address' },
  answer: {
    json: object({
      resource: { ...text, says: 'The MCP address' },
      authorization_servers: listOf(text),
      bearer_methods_supported: listOf(text),
    }),
  },
  errors: UNSERVED,
  example: {
    resource: 'https://apps.example.org/svc/todos/_mcp',
    authorization_servers: ['https://apps.example.org'],
    bearer_methods_supported: ['header'],
  },
});

export const showIssuer = row({
  method: 'GET',
  path: '/.well-known/oauth-authorization-server',
  needs: 'anyone',
  title: 'Show the authorization server',
  does: 'Answers where programs register, where a browser is sent, and where tokens come from (RFC 8414).',
  answer: {
    json: object({
      issuer: text,
      authorization_endpoint: { ...text, says: 'At the console, where people sign in' },
      token_endpoint: text,
      registration_endpoint: text,
      revocation_endpoint: text,
      response_types_supported: listOf(text),
      response_modes_supported: listOf(text),
      grant_types_supported: listOf(text),
      token_endpoint_auth_methods_supported: listOf(text),
      revocation_endpoint_auth_methods_supported: listOf(text),
      code_challenge_methods_supported: listOf(text),
      authorization_response_iss_parameter_supported: { const: true },
      client_id_metadata_document_supported: {
        ...flag,
        says: 'A program may name itself by the https address of a document about it, and need not register',
      },
    }),
  },
  errors: UNSERVED,
  example: {
    issuer: 'https://apps.example.org',
    authorization_endpoint: 'https://apps.example.org/svc/_oauth/authorize',
    token_endpoint: 'https://apps.example.org/svc/_oauth/token',
    registration_endpoint: 'https://apps.example.org/svc/_oauth/register',
    revocation_endpoint: 'https://apps.example.org/svc/_oauth/revoke',
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
  },
});

export const registerClient = row({
  method: 'POST',
  path: '/svc/_oauth/register',
  needs: 'anyone',
  title: 'Register a program',
  does: `Registers a program by what it says of itself, as JSON (RFC 7591): \`redirect_uris\` and \`client_name\`. It gets no secret. It is forgotten after ${LIMITS.clientUnusedMs / LIMITS.dayMs} day if nobody connects it, else ${LIMITS.clientKeptMs / LIMITS.dayMs} days after it was connected last.`,
  body: { media: 'application/json', says: 'What the program says of itself' },
  answer: {
    status: 201,
    json: {
      anyOf: [
        object({
          client_id: CLIENT_ID,
          client_id_issued_at: { ...count, says: 'In seconds since the epoch' },
          client_name: text,
          redirect_uris: listOf(text),
          grant_types: listOf(text),
          response_types: listOf(text),
          token_endpoint_auth_method: { const: 'none' },
        }),
        FAULT,
      ],
    },
    also: {
      ...FAULTS,
      429: 'The same, where too many register from one address',
      503: 'The same, where too many are registered',
    },
  },
  errors: HOSTED,
  example: {
    client_id: 'client_5d0c…',
    client_id_issued_at: 1_767_225_600,
    client_name: 'Claude',
    redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
});

export const openAuthorization = row({
  method: 'GET',
  path: '/svc/_oauth/authorize',
  needs: 'anyone',
  title: 'Ask a person to connect a program',
  does: 'Sends the browser to the page of the console at which a person agrees. That goes back to the program only where the person says so.',
  query: object(
    {},
    {
      client_id: text,
      redirect_uri: { ...text, says: 'One that the program registered' },
      response_type: { ...text, says: '`code`' },
      code_challenge: { ...text, says: 'Of PKCE' },
      code_challenge_method: { ...text, says: '`S256`' },
      resource: { ...text, says: 'The MCP address (RFC 8707)' },
      state: { ...text, says: 'Comes back with the answer' },
    },
  ),
  answer: { status: 303, says: 'To the console.' },
  errors: UNSERVED,
});

const QUERY = {
  query: {
    ...text,
    maxLength: LIMITS.oauthBodyBytes,
    wanted: 'a text',
    says: 'The query string with which the browser came',
  },
} as const;

export const showAuthorization = row({
  method: 'POST',
  path: '/svc/_oauth/request',
  needs: 'account',
  title: 'Show what a program asks for',
  does: 'Says which program wants to be connected, to what, and what the person who asks may give it.',
  body: object(QUERY),
  answer: {
    json: object({
      name: { ...text, says: 'What the program calls itself. Nobody has checked it' },
      host: { ...textOrNull, says: 'Where the browser goes with the answer. Null: to a program on the same machine' },
      app: { ...orNull(object({ id: text, name: text })), says: 'Null: every app' },
      workspace: { ...textOrNull, says: 'The id of the workspace, where it is about a draft' },
      roles: { ...listOf(text), says: 'What may be given, the weakest first' },
      defined: { ...listOf(DEFINED_ROLE), says: "Of these, those of the app's manifest" },
      problem: { ...textOrNull, says: 'Why it cannot be connected' },
      back: { ...text, says: 'The address that tells the program that nothing was given' },
    }),
  },
  errors: {
    ...HOSTED,
    BAD_REQUEST: 'it is not known which program asks, or where its answer would go',
    FETCH_FAILED: 'what the program says of itself cannot be fetched',
  },
  example: {
    name: 'Claude',
    host: 'claude.ai',
    app: { id: 'todos', name: 'Todos' },
    workspace: null,
    roles: ['viewer', 'editor'],
    defined: [],
    problem: null,
    back: 'https://claude.ai/api/mcp/auth_callback?error=access_denied&state=…',
  },
});

export const giveAuthorization = row({
  method: 'POST',
  path: '/svc/_oauth/consent',
  needs: 'account',
  title: 'Connect a program',
  does: 'Agrees to what a program asks for, in a role. It gets no more than who agrees has, at any time.',
  body: object({ ...QUERY, role: APP_ROLE }),
  answer: {
    status: 201,
    json: object({ url: { ...text, says: 'Where the browser goes, with a code that is good once, for a minute' } }),
  },
  errors: {
    ...HOSTED,
    BAD_REQUEST: 'as above, or it cannot be connected',
    FETCH_FAILED: 'as above',
    FORBIDDEN: 'who agrees has less',
  },
  example: { url: 'https://claude.ai/api/mcp/auth_callback?code=…&state=…&iss=https%3A%2F%2Fapps.example.org' },
});

export const giveTokens = row({
  method: 'POST',
  path: '/svc/_oauth/token',
  needs: 'anyone',
  title: 'Get tokens',
  does: `Gives tokens for a code (\`grant_type=authorization_code\`, \`code\`, \`client_id\`, \`redirect_uri\`, \`code_verifier\`, and \`resource\` if wanted) or for a refresh token (\`grant_type=refresh_token\`, \`refresh_token\`, \`client_id\`). A code or refresh token that is used twice ends what was given with it; within ${LIMITS.refreshAgainMs / 1000} seconds of its use a refresh token gives the same next one, for clients that ask twice at once.`,
  body: { media: FORM, says: 'The parameters' },
  answer: {
    json: {
      anyOf: [
        object({
          access_token: { ...text, says: 'Good at the one MCP address' },
          token_type: { const: 'Bearer' },
          expires_in: { ...count, says: 'In seconds' },
          refresh_token: { ...text, says: `Good once, for ${LIMITS.refreshTokenMs / LIMITS.dayMs} days` },
          scope: { ...text, says: 'The role that was given' },
        }),
        FAULT,
      ],
    },
    also: { ...FAULTS, 503: 'The same, where too many programs are connected' },
  },
  errors: { ...HOSTED, STORAGE_FULL: '' },
  example: {
    access_token: 'svco_…',
    token_type: 'Bearer',
    expires_in: LIMITS.accessTokenMs / 1000,
    refresh_token: 'svcr_…',
    scope: 'editor',
  },
});

export const revokeTokens = row({
  method: 'POST',
  path: '/svc/_oauth/revoke',
  needs: 'anyone',
  title: 'End what a program was given',
  does: 'Ends the connection whose token a program sends (RFC 7009), with `token` and `client_id`. A token that is none is no error.',
  body: { media: FORM, says: 'The parameters' },
  answer: { json: { anyOf: [object({}), FAULT] }, also: FAULTS },
  errors: { ...HOSTED, STORAGE_FULL: '' },
  example: {},
});

export const OAUTH = resource({
  name: 'Connecting programs',
  page: 'oauth',
  about:
    'A program that speaks [MCP](mcp.md) is connected by signing in, with OAuth 2.1. Its libraries call these routes. What is refused has the shape of errors of OAuth in the answers of registration, tokens and revocation, and there alone: `{ "error", "error_description" }`. What is refused before that, such as a body that is too large, has the shape of all errors. [Connections](http-connections.md) lists what was connected.',
  rows: [
    showResource,
    showIssuer,
    registerClient,
    openAuthorization,
    showAuthorization,
    giveAuthorization,
    giveTokens,
    revokeTokens,
  ],
});

const PARAMS = { pid: 'The id of the person, or `me`' };
const OWN = ' Of others, owners may. `me` is the administrator where that asks.';
const NO_PERSON = { ...HOSTED, UNKNOWN_PERSON: '' };

export const listConnections = row({
  method: 'GET',
  path: '/svc/_people/:pid/connections',
  needs: 'account',
  title: 'List the programs that a person connected',
  does: `Lists what a person connected, the one last used first.${OWN}`,
  params: PARAMS,
  answer: {
    json: listOf(
      object(
        {
          id: text,
          name: { ...text, says: 'What the program calls itself' },
          app: { ...orNull(object({ id: text, name: text })), says: 'Null: every app' },
          workspace: { ...textOrNull, says: 'The id of the workspace, where it is about a draft' },
          role: APP_ROLE,
          createdAt: TIME,
          lastUsedAt: TIME,
          expiresAt: {
            ...TIME,
            says: `When it ends if it is not used again, ${LIMITS.refreshTokenMs / LIMITS.dayMs} days after the last refresh`,
          },
        },
        { roleName: { ...text, says: 'Of a role of its manifest: its name' } },
      ),
    ),
  },
  errors: NO_PERSON,
  example: [
    {
      id: 'c_81f3a0b2d4c6',
      name: 'Claude',
      app: { id: 'todos', name: 'Todos' },
      workspace: null,
      role: 'editor',
      createdAt: 1_767_225_600_000,
      lastUsedAt: 1_767_229_200_000,
      expiresAt: 1_769_817_600_000,
    },
  ],
});

export const endConnection = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/connections/:connection',
  needs: 'account',
  title: 'End a connection',
  does: `Takes back what a program was given: at once, with its streams.${OWN}`,
  params: { ...PARAMS, connection: 'The id of the connection' },
  answer: { json: object({ ended: { ...count, says: 'How many: 1, or 0 where there is none of this id' } }) },
  errors: { ...NO_PERSON, STORAGE_FULL: '' },
  example: { ended: 1 },
});

export const CONNECTIONS = resource({
  name: 'Connections',
  page: 'connections',
  about: 'A connection is what somebody gave a program by [signing in](mcp.md#sign-in): a role at one MCP address.',
  rows: [listConnections, endConnection],
});
