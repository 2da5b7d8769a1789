/**
 * Says whose data each route is about, from its row, so that a cluster knows which node answers it (specification, "Calls between
 * nodes").
 */

import { MCP } from './agents/mcp-rows.ts';
import { PAGES } from './apps/pages-rows.ts';
import { TOOLS } from './apps/tools-rows.ts';
import { AUDIT } from './operations/audit-rows.ts';
import { NOTICES } from './operations/notices-rows.ts';
import { TOKENS } from './operations/tokens-rows.ts';
import { ACCOUNTS } from './people/accounts-rows.ts';
import { CONNECTIONS, OAUTH } from './people/oauth-rows.ts';
import { PASSKEYS } from './people/passkey-rows.ts';
import { GROUPS, INVITATIONS, PEOPLE } from './people/people-rows.ts';
import { PROVIDERS } from './people/providers-rows.ts';
import { SHARES } from './people/shares-rows.ts';
import { SIGN_IN } from './people/sign-in-rows.ts';
import { RESOURCES } from './resources.ts';
import type { Resource, RouteRow } from './row.ts';

/**
 * - An app: of the id that the request has as `name`. In a member or parameter `ref` it is `<app>/<automation>`; what is
 *   `trashed` has the name of an app in its own. `without` is the subject where the request has none.
 * - A run, or the address of a webhook, which the path has as `name`: the node that has it knows of which app. A workspace: the directory of
 *   the cluster knows which apps it has, and the request goes to the first one.
 * - `gateway`: the data of the gateway itself, which is in the bucket of its identity database.
 * - `any`: nobody's data. The node that is asked answers.
 * - `message`: what a message of MCP is about, which its body says, else the data of the gateway.
 * - `every`: the apps of all nodes. Their answers are put together.
 * - The apps of all nodes in one piece, which no node can give or take; `instead` says what to do.
 */
export type Subject = NamedSubject | FoundSubject | WholeSubject | 'gateway' | 'any' | 'message' | 'every';
export type NamedSubject = {
  readonly of: 'app' | 'trashed';
  readonly in: 'path' | 'query' | 'body';
  readonly name: string;
  readonly without: Subject;
};
export type FoundSubject = { readonly of: 'run' | 'webhook' | 'workspace'; readonly in: 'path'; readonly name: string };
export type WholeSubject = { readonly of: 'whole'; readonly instead: string };

/** All of their rows are about the identity database. */
const OF_GATEWAY: ReadonlySet<Resource> = new Set<Resource>([
  ACCOUNTS,
  AUDIT,
  CONNECTIONS,
  GROUPS,
  INVITATIONS,
  NOTICES,
  OAUTH,
  PASSKEYS,
  PEOPLE,
  PROVIDERS,
  SHARES,
  SIGN_IN,
  TOKENS,
]);

/** Their calls change databases only. What a handler keeps in files of its app is stored where it is kept. */
const IN_DATABASES: ReadonlySet<Resource> = new Set<Resource>([MCP, TOOLS]);

const RUN: FoundSubject = { of: 'run', in: 'path', name: 'runId' };
const CODE: WholeSubject = {
  of: 'whole',
  instead: 'take and bring apps one at a time: svc pull <app>, svc push <dir>',
};
const BACKUP: WholeSubject = {
  of: 'whole',
  instead: 'back up the PostgreSQL database of the cluster, which has all of them',
};
const TRASHED: NamedSubject = { of: 'trashed', in: 'path', name: 'id', without: 'any' };

/** The rows whose subject does not follow from what they take. */
const EXCEPTIONS: Readonly<Record<string, Subject>> = {
  // Each node says how it is itself.
  'GET /svc/_health': 'any',
  'GET /svc/_system': 'any',
  'GET /svc/_metrics': 'any',
  'GET /svc/_cluster': 'any',
  'POST /svc/_cluster/drain': 'any',
  'GET /svc/_agents/status': 'any',
  'GET /svc/_turn/runner-status': 'any',
  // The same at every node.
  'GET /svc/_openapi.json': 'any',
  'GET /svc/_templates': 'any',
  // It refuses every call.
  'POST /svc/_tool/:tool': 'any',
  'GET /_svc-user/id': 'gateway',
  'GET /_svc-user/prefs': 'gateway',
  'PUT /_svc-user/prefs': 'gateway',
  // A session of MCP stays at one node, and calls tools of any app.
  'POST /svc/_mcp': 'message',
  'GET /svc/_mcp': 'message',
  'DELETE /svc/_mcp': 'message',
  'POST /_svc-hook/*': { of: 'webhook', in: 'path', name: '*' },
  'POST /svc/_trash/:id/restore': TRASHED,
  'DELETE /svc/_trash/:id': TRASHED,
  'GET /svc/_runs/:runId': RUN,
  'GET /svc/_runs/:runId/nodes': RUN,
  'GET /svc/_runs/:runId/events': RUN,
  'POST /svc/_runs/:runId/pin': RUN,
  'POST /svc/_runs/:runId/cancel': RUN,
  'GET /svc/_apps': 'every',
  'GET /svc/_trash': 'every',
  'GET /svc/_sessions': 'every',
  'GET /svc/_insights': 'every',
  // The secrets that it answers are shown once: what one node created must not be lost with the answer of another.
  'POST /svc/_automations/_provision': {
    of: 'app',
    in: 'body',
    name: 'app',
    without: { of: 'app', in: 'body', name: 'ref', without: { of: 'whole', instead: 'name one in "app"' } },
  },
  'POST /svc/_code/export': CODE,
  'POST /svc/_code/import': CODE,
  'POST /svc/_backup': BACKUP,
  'PUT /svc/_backups': BACKUP,
  'POST /svc/_backups/files': BACKUP,
  // What is on the disk of the node.
  'GET /svc/_backups': 'any',
  'DELETE /svc/_backups': 'any',
  'GET /svc/_backups/files': 'any',
  'POST /svc/_backups/files/:name/verify': 'any',
  // Where the new app comes to be.
  'POST /svc/_apps/:id/duplicate': { of: 'app', in: 'body', name: 'id', without: 'any' },
  // The node that draws the id has it then; the first one is that of the template.
  'POST /svc/_apps/_clone': {
    of: 'app',
    in: 'body',
    name: 'id',
    without: { of: 'app', in: 'body', name: 'templateId', without: 'any' },
  },
  'POST /svc/_sessions': 'any',
  // Of the apps that it has, each node compares its own.
  'GET /svc/_sessions/:sid/diff': { of: 'app', in: 'query', name: 'app', without: 'every' },
};

/** The rows whose requests may change the files of their subject. */
export function rowsOfFiles(resources: readonly Resource[] = RESOURCES): ReadonlySet<RouteRow> {
  const changing = resources.filter((resource) => !IN_DATABASES.has(resource)).flatMap(({ rows }) => rows);
  return new Set(changing.filter(({ method }) => method !== 'GET'));
}

/**
 * The app that a request names, or whose data it is about where it names none; null where it is about no such data. `given`
 * answers what the request has as `name` in a place.
 */
export function subjectIn(
  subject: NamedSubject,
  given: (place: NamedSubject['in'], name: string) => string | null | undefined,
): { of: NamedSubject['of']; id: string } | null {
  const { of, name, without } = subject;
  const id = given(subject.in, name);
  if (id !== undefined && id !== null) return { of, id: name === 'ref' ? (id.split('/', 1)[0] as string) : id };
  return isNamed(without) ? subjectIn(without, given) : null;
}

export function isNamed(subject: Subject | undefined): subject is NamedSubject {
  return typeof subject === 'object' && 'without' in subject;
}

/** The subject of every row. Throws where one has none. */
export function subjectsOf(resources: readonly Resource[] = RESOURCES): ReadonlyMap<RouteRow, Subject> {
  return new Map(resources.flatMap((resource) => resource.rows.map((row) => [row, subjectOf(resource, row)] as const)));
}

function subjectOf(resource: Resource, row: RouteRow): Subject {
  const name = `${row.method} ${row.path}`;
  const subject = EXCEPTIONS[name] ?? (OF_GATEWAY.has(resource) ? 'gateway' : namedSubject(row));
  if (subject !== null) return subject;
  if (resource === PAGES && row.needs === 'anyone') return 'any';
  throw new Error(`${name}: what it takes does not say whose data it is about; add it to the exceptions.`);
}

function namedSubject(row: RouteRow): Subject | null {
  const inPath = (name: string) => row.path.split('/').includes(`:${name}`);
  const workspace: FoundSubject | null = inPath('sid') ? { of: 'workspace', in: 'path', name: 'sid' } : null;
  // In addresses of automations `:id` is that of the automation.
  for (const name of ['app', 'id']) if (inPath(name)) return { of: 'app', in: 'path', name, without: 'any' };
  // A new app has the name that `needs` says.
  const named = ['app', ...(typeof row.needs === 'string' ? [] : [row.needs.of])];
  const body = row.body === undefined || 'media' in row.body ? undefined : row.body;
  for (const [place, schema] of [
    ['query', row.query],
    ['body', body],
  ] as const) {
    const name = named.find((one) => schema?.properties?.[one] !== undefined);
    if (name === undefined) continue;
    const all = workspace ?? (schema?.required?.includes(name) ? 'any' : 'every');
    const without: Subject =
      schema?.properties?.ref === undefined ? all : { of: 'app', in: place, name: 'ref', without: all };
    return { of: 'app', in: place, name, without };
  }
  return workspace;
}
