/** The routes that call the tools of apps (specification, "Dispatcher"). */
import type { ErrorBody, InputIssue } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import type { ActionDefinition, Manifest, QueryDefinition } from '../../manifest.ts';
import { integer, object, type Schema, text, typed } from '../../shapes/schema.ts';
import { type RowErrors, resource, row } from '../row.ts';

const APP = { ...text, says: 'The id of the app' } as const;
const INPUT = { says: 'What its schema says; `{}` by default' } as const;
/** It is answered as it is. */
const VALUE = { says: 'What the handler answered' } as const;

type DescribedTool = { name: string; description?: string | undefined };
/** An app in the list of all, or why it cannot be described. */
export type DescribedApp =
  | {
      app: string;
      name: string;
      version: string;
      description?: string | undefined;
      kind: string;
      queries: DescribedTool[];
      actions: (DescribedTool & { confirmation?: string | undefined })[];
    }
  | { app: string; error: ErrorBody };
/** All apps, one with the whole of its manifest, or a tool: as much as is asked for. */
type Description =
  | { apps: DescribedApp[] }
  | (Manifest & { app: string; mcpApp?: { resource: string; tool: string } | { faults: InputIssue[] } })
  | ({ app: string; name: string; version: string } & ({ query: QueryDefinition } | { action: ActionDefinition }));

const answerOf = <const S extends Schema>(data: S) => object({ isError: { const: false }, data });
/** Of calls of one tool. */
const OF_CALL: RowErrors = {
  UNKNOWN_APP: '',
  NO_ACTIVE_VERSION: '',
  WRONG_KIND: '',
  INVALID_INPUT: '',
  INVALID_MANIFEST: '',
  HANDLER_ERROR: '',
  QUARANTINED: '',
  MIGRATION_FAILED: 'of a draft',
  OVERLOADED: '',
  STORE_DAMAGED: 'the data of the app is lost or damaged; status 503',
  QUOTA_EXCEEDED: 'of the files that the handler stores',
  STORAGE_FULL: '',
  RATE_LIMITED: 'for a visitor',
};
const TIMING = { 'server-timing': 'how long the call waited and ran, see [headers](http-api.md#headers)' };

export const describeTools = row({
  method: 'POST',
  path: '/svc/_tool/svc_describe',
  needs: { right: 'read', of: 'each app that it describes' },
  title: 'Describe apps and tools',
  does: 'Describes one tool, one app with all its tools, or all apps that the caller may describe.',
  body: object(
    {},
    {
      app: { ...text, says: 'The id of the app. Without it: all apps' },
      query: { ...text, says: 'The name of a query: describes only this one' },
      action: { ...text, says: 'The name of an action, likewise; not beside `query`' },
    },
  ),
  answer: {
    json: answerOf(
      typed<Description>({
        says: 'Without `app` `{ apps }`; for an app its manifest, with `mcpApp` if it has a page; for a tool its definition',
      }),
    ),
    headers: TIMING,
  },
  errors: {
    UNKNOWN_APP: '',
    NO_ACTIVE_VERSION: '',
    UNKNOWN_QUERY: '',
    UNKNOWN_ACTION: '',
    INVALID_INPUT: 'both `query` and `action`',
    INVALID_MANIFEST: '',
  },
  example: {
    isError: false,
    data: {
      apps: [
        {
          app: 'todos',
          name: 'Todos',
          version: '1.0.0',
          description: 'A list of things to do.',
          kind: 'app',
          queries: [{ name: 'list', description: 'All todos.' }],
          actions: [{ name: 'add', description: 'Adds a todo.' }],
        },
      ],
    },
  },
  drafts: 'It describes the apps in the workspace.',
});

export const readTool = row({
  method: 'POST',
  path: '/svc/_tool/svc_read',
  needs: { right: 'read', of: 'the app in `app`' },
  title: 'Call a query',
  does: 'Calls a query and answers with its value.',
  body: object({ app: APP, query: { ...text, says: 'The name of the query' } }, { input: INPUT }),
  answer: { json: answerOf(VALUE), headers: TIMING },
  errors: { ...OF_CALL, UNKNOWN_QUERY: '' },
  example: { isError: false, data: [{ id: 1, title: 'Milk', done: false }] },
  drafts: true,
  visitors: 'tool',
});

export const writeTool = row({
  method: 'POST',
  path: '/svc/_tool/svc_write',
  needs: { right: 'write', of: 'the app in `app`' },
  title: 'Call an action',
  does: 'Calls an action and answers with its status and body.',
  headers: {
    'idempotency-key': `1 to ${LIMITS.idempotencyKeyBytes} bytes. A repetition gets the recorded answer, see [headers](http-api.md#headers)`,
  },
  body: object({ app: APP, action: { ...text, says: 'The name of the action' } }, { input: INPUT }),
  answer: {
    json: answerOf(object({ status: integer(200, 599), body: VALUE })),
    says: 'The status is that of the action, any from 200 to 599, but 200 for a 204 or 304: an action that answers 404 gives a 404 with `isError` false and `data.status` 404.',
    headers: { ...TIMING, 'idempotency-replayed': '`true` if the answer is a recorded one' },
  },
  errors: {
    ...OF_CALL,
    UNKNOWN_ACTION: '',
    NOT_CONFIRMED: '',
    CONFLICT: 'the call with this key still runs, or a crash interrupted it',
    IDEMPOTENCY_MISMATCH: '',
  },
  example: { isError: false, data: { status: 201, body: { id: 2, title: 'Bread' } } },
  drafts: true,
  visitors: 'tool',
});

export const otherTool = row({
  method: 'POST',
  path: '/svc/_tool/:tool',
  needs: { right: 'read', of: 'some app' },
  title: 'Call another tool',
  does: 'Always answers with an error: there are no other tools.',
  params: { tool: 'A name that is none of the three' },
  answer: {
    status: 404,
    json: object({ isError: { const: true }, error: object({ code: { const: 'UNKNOWN_TOOL' }, message: text }) }),
  },
  errors: { UNKNOWN_TOOL: '' },
  example: {
    isError: true,
    error: {
      code: 'UNKNOWN_TOOL',
      message: 'There is no tool "svc_sing"; the tools are svc_describe, svc_read and svc_write.',
    },
  },
  drafts: true,
});

export const TOOLS = resource({
  name: 'Tools',
  page: 'tools',
  about: `The queries and actions of apps are called through three tools. \`isError\` is true only for errors of the gateway and of handlers that threw. A page may also call the tools of the apps in its app's [\`uses\`](app-guide.md#manifest). Visitors need no token for the public tools of a [public app](public-apps.md).

Below \`/svc/_draft/\` these tools use the drafts of a workspace.`,
  rows: [describeTools, readTool, writeTool, otherTool],
});
