/** Says who may use each route: the weakest of the roles of people that has what its row needs (specification, "People"). */
import { type Capability, pathsOf, type RouteRow } from './row.ts';

/**
 * `nobody` asks without signing in, a `member` has an account and no more, `viewer`, `editor` and `manager` are roles in the app that
 * the request is about, an `author` makes apps, an `owner` may do everything.
 */
export const PEOPLES_ROLES = ['nobody', 'member', 'viewer', 'editor', 'manager', 'author', 'owner'] as const;
export type PeoplesRole = (typeof PEOPLES_ROLES)[number];

const WEAKEST: Readonly<Record<Capability, PeoplesRole>> = {
  page: 'viewer',
  read: 'viewer',
  stream: 'viewer',
  write: 'editor',
  chat: 'editor',
  settings: 'manager',
  manage: 'manager',
  make: 'author',
  admin: 'owner',
};

/**
 * Of a request to one of a row's paths: `role` of one about an app, `without` of one that names none, where that needs something
 * else. A draft has no people but its managers.
 */
export function weakestRoles({ needs }: RouteRow, path: string): { role: PeoplesRole; without?: PeoplesRole } {
  if (needs === 'anyone') return { role: 'nobody' };
  if (path.startsWith('/svc/_draft/')) return { role: 'manager' };
  // Those of the person themselves.
  if (needs === 'account' || (needs === 'settings' && !/:(?:id|app)\b/.test(path))) return { role: 'member' };
  if (typeof needs === 'string') return { role: WEAKEST[needs] };
  const { right, without = right } = needs;
  const role = WEAKEST[right];
  return WEAKEST[without] === role ? { role } : { role, without: WEAKEST[without] };
}

/** The page of the reference that lists all routes with the role that each needs. */
export function rolesPage(rows: readonly RouteRow[]): string {
  const lines = rows.flatMap((row) =>
    pathsOf(row).map((path) => {
      const { role, without } = weakestRoles(row, path);
      const named = without === undefined ? role : `${role}; without an app ${without}`;
      return [`${path} ${row.method}`, `| \`${row.method} ${path}\` | ${named} |`] as const;
    }),
  );
  const table = lines.sort(([one], [other]) => (one < other ? -1 : 1)).map(([, line]) => line);
  return `${HEAD}\n${table.join('\n')}\n`;
}

const HEAD = `# HTTP: who may use a route

<!-- Written by "npm run reference" from the rows in protocol/routes. -->

The weakest of the [roles](people.md#roles) of people that may use each route. Each may do what those before it may, with its apps:

- \`nobody\`: no sign-in is needed;
- \`member\`: an account, for what is its own;
- \`viewer\`, \`editor\`, \`manager\`: that role in the app that the request is about. A manager also has its drafts;
- \`author\`: for a new app. Of the apps that they made, authors are managers;
- \`owner\`: everything, as with the access token.

A [role of an app](people.md#roles-of-an-app) has what a viewer has, and the tools that it names. Some routes refuse more than the
table says, which their own text tells.

| Route | Weakest role |
|---|---|`;
