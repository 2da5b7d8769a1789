/** Checks a call against the roles that an app's manifest defines (specification, "People"). */
import { SvcError } from '../../protocol/errors.ts';
import type { RoleDefinition } from '../../protocol/manifest.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import type { Target } from './request.ts';
import type { App } from './scope.ts';

/** What `viewer` allows, beside a role that may allow less of it. */
const VIEWER: RoleDefinition = { name: 'viewer', queries: '*', actions: [] };

type Roles = Readonly<Record<string, RoleDefinition>>;

/** Whether one of the caller's roles allows a tool, where `defined` are those of the app's manifest. */
export function allowsTool(
  kind: Target['kind'],
  name: string,
  { roles }: Pick<HandlerCaller, 'roles'>,
  defined: Roles = {},
): boolean {
  if (roles === undefined) return true;
  return definitionsOf(roles, defined).some(({ queries, actions }) => {
    const names = kind === 'query' ? queries : actions;
    return names === '*' || names.includes(name);
  });
}

/** Throws `FORBIDDEN`, which names role and tool, unless one of the caller's roles allows the tool. */
export function demandRole({ app, kind, tool }: Target, caller: HandlerCaller): void {
  const { roles } = caller;
  if (roles === undefined) return;
  const defined = app.serving().roles;
  if (allowsTool(kind, tool.name, caller, defined)) return;
  const [first] = definitionsOf(roles, defined);
  const why =
    first === undefined
      ? `"${app.id}" has no role "${roles[0]}"`
      : `your role in "${app.id}" is ${first.name}, which does not allow the ${kind} "${tool.name}"`;
  throw new SvcError('FORBIDDEN', `You may not do this: ${why}. Who manages the app can give you another one.`);
}

/** Throws `FORBIDDEN` unless one of the caller's roles allows some action: who changes nothing also stores no files. */
export function demandSomeAction(app: App, { roles }: HandlerCaller): void {
  if (roles === undefined) return;
  if (definitionsOf(roles, app.serving().roles).some(({ actions }) => actions === '*' || actions.length > 0)) return;
  throw new SvcError('FORBIDDEN', `Your role in "${app.id}" changes nothing, so it stores and deletes no files.`);
}

/** The roles among these that there are. */
function definitionsOf(roles: readonly string[], defined: Roles = {}): RoleDefinition[] {
  return roles.flatMap((id) => (Object.hasOwn(defined, id) ? (defined[id] ?? []) : id === 'viewer' ? VIEWER : []));
}
