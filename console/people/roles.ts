/** Says in words what the roles may do, before one is given. */
import type { AppRecord } from '../../protocol/answer-types.ts';

export const ROLES = ['member', 'author', 'owner'] as const;
export type Role = (typeof ROLES)[number];

/** Roles in the gateway. */
export const ROLE_WORDS: Record<Role, string> = {
  member: 'Uses the apps that are shared with them.',
  author: 'Makes apps, and manages the ones they made.',
  owner: 'May do everything, also with people.',
};

/** A role in an app: `does` ends a sentence that begins with who has it. `description` is what its app says of it. */
export type AppRole = { id: string; name: string; does: string; description?: string };

export const APP_ROLES: readonly AppRole[] = [
  { id: 'viewer', name: 'viewer', does: 'sees everything, and changes nothing' },
  { id: 'editor', name: 'editor', does: 'sees everything, and changes its data' },
  { id: 'manager', name: 'manager', does: 'also changes the app, its settings and secrets, and shares it' },
];

/** The roles in an app, with those of its manifest. */
export function rolesIn(app: Pick<AppRecord, 'roles'> | undefined): AppRole[] {
  const own = (app?.roles ?? []).map(({ queries, actions, ...role }) => {
    return {
      ...role,
      does: `may call ${inWords(queries, 'query', 'queries')} and ${inWords(actions, 'action', 'actions')}`,
    };
  });
  return [...APP_ROLES, ...own];
}

/** Those that a link can give: who manages an app has an account. */
export function rolesOfLinks(roles: readonly AppRole[]): AppRole[] {
  return roles.filter(({ id }) => id !== 'manager');
}

/** What a role may do, in a sentence about `who`; the id of one that its app has no more. */
export function saysOf(roles: readonly AppRole[], id: string, who: string): string {
  const role = roles.find((one) => one.id === id);
  return role === undefined ? id : (role.description ?? `${who} ${role.does}.`);
}

/** What people see of a role; the app may have it no more. */
export function nameIn(roles: readonly AppRole[], id: string): string {
  return roles.find((role) => role.id === id)?.name ?? id;
}

function inWords(tools: '*' | readonly string[], one: string, many: string): string {
  if (tools === '*') return `all ${many}`;
  if (tools.length === 0) return `no ${many}`;
  return `the ${tools.length === 1 ? one : many} ${tools.join(', ')}`;
}
