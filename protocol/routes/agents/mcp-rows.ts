/** The routes of the MCP server (specification, "MCP server"). */
import { object, type Schema, text } from '../../shapes/schema.ts';
import { type RouteRow, resource, row } from '../row.ts';

const ID = { type: ['string', 'integer', 'null'], wanted: 'a text or an integer' } as const;
const JSON_RPC = { jsonrpc: { const: '2.0', wanted: '"2.0"' } } as const satisfies Record<string, Schema>;
const REQUEST = object(
  { ...JSON_RPC, method: { ...text, says: '`initialize`, `tools/list`, `tools/call` and the like' } },
  {
    id: { ...ID, says: 'Without it: a notification' },
    params: { type: 'object', wanted: 'an object', says: 'As the protocol says for the method' },
  },
);
const RESPONSE = object(JSON_RPC, {
  id: ID,
  result: {},
  error: object({ code: { type: 'integer' }, message: text }, { data: {} }),
});
/** A request or a notification of the server, or what it answers late. */
const MESSAGES = {
  message: object(JSON_RPC, { ...RESPONSE.properties, method: text, params: { type: 'object' } }),
} as const;
const SESSION = 'mcp-session-id';
const NAMES_SESSION = 'The session, from the answer to `initialize`';
const ENDED = 'the session has ended';

/** Those of one server, at `path`. */
function server<
  const Path extends string,
  const Common extends Pick<RouteRow, 'needs' | 'errors' | 'drafts'> & { readonly errors: object },
>(path: Path, which: string, common: Common) {
  const { errors } = common;
  const follows = { ...errors, NOT_FOUND: ENDED, METHOD_NOT_ALLOWED: 'without a session' };
  return [
    row({
      ...common,
      method: 'POST',
      path,
      title: `Ask the server of ${which}`,
      does: 'Takes a message of JSON-RPC and answers it.',
      headers: { [SESSION]: NAMES_SESSION, 'mcp-protocol-version': 'The version of the protocol' },
      body: REQUEST,
      answer: {
        json: RESPONSE,
        events: MESSAGES,
        says: 'While a person is asked to [confirm](mcp.md#confirmations) a call, the answer is an event stream.',
        also: {
          202: 'Without a body, for a notification or an answer of the client',
          400: 'With a JSON-RPC error, for a message that breaks the protocol',
        },
        headers: { [SESSION]: 'the id of the new session, in the answer to `initialize`' },
      },
      errors: { ...errors, NOT_FOUND: ENDED },
      example: {
        jsonrpc: '2.0',
        id: 1,
        result: { content: [{ type: 'text', text: '[{"id":1,"title":"Milk"}]' }] },
      },
    }),
    row({
      ...common,
      method: 'GET',
      path,
      title: `Follow a session with the server of ${which}`,
      does: 'Opens the event stream of a session: the changes of [its subscriptions](mcp.md#subscribe-to-a-result), and [those of its tools and resources](mcp.md#when-tools-change).',
      headers: { [SESSION]: NAMES_SESSION, 'last-event-id': 'The last event that the client has' },
      answer: { media: 'text/event-stream', events: MESSAGES },
      errors: { ...follows, OVERLOADED: 'too many streams' },
    }),
    row({
      ...common,
      method: 'DELETE',
      path,
      title: `End a session with the server of ${which}`,
      does: 'Ends a session, its stream and its subscriptions.',
      headers: { [SESSION]: NAMES_SESSION },
      answer: { status: 204 },
      errors: follows,
    }),
  ] as const;
}

export const serverOfAll = server('/svc/_mcp', 'all apps', {
  needs: { right: 'read', of: 'each app whose tool is called, for actions `write`, for SQL `manage`' },
  errors: { FORBIDDEN: 'a page of another origin, or of an app' },
});

export const serverOfApp = server('/svc/:id/_mcp', 'an app', {
  needs: { right: 'read', of: 'the app, for its actions `write`' },
  errors: {
    FORBIDDEN: 'a page of another origin',
    INVALID_ID: '',
    RESERVED_ID: '',
    UNKNOWN_APP: '',
    NO_ACTIVE_VERSION: '',
    INVALID_MANIFEST: '',
  },
  drafts: true,
});

export const MCP = resource({
  name: 'MCP',
  page: 'mcp',
  about: `[MCP](mcp.md) has its tools at two addresses. The server of all apps has \`svc_describe\`, \`svc_read\` and \`svc_write\`, and \`svc_sql_*\` for callers that may manage an app. The server of an app, or of a draft, has each of its queries and actions as a tool.`,
  rows: [...serverOfAll, ...serverOfApp],
});
