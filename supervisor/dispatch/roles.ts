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
  for (const id of roles) if (allows(definitionOf(id, defined), kind, name)) return true;
  return false;
}

/** Throws `FORBIDDEN`, which names role and tool, unless one of the caller's roles allows the tool. */
export function demandRole({ app, kind, tool }: Target, caller: HandlerCaller): void {
  const { roles } = caller;
  if (roles === undefined) return;
  const defined = app.serving().roles;
  if (allowsTool(kind, tool.name, caller, defined)) return;
  const first = roles.map((id) => definitionOf(id, defined)).find((role) => role !== undefined);
  const why =
    first === undefined
      ? `"${app.id}" has no role "${roles[0]}"`
      : `your role in "${app.id}" is ${first.name}, which does not allow the ${kind} "${tool.name}"`;
  throw new SvcError('FORBIDDEN', `You may not do this: ${why}. Who manages the app can give you another one.`);
}

/** Throws `FORBIDDEN` unless one of the caller's roles allows some action: who changes nothing also stores no files. */
export function demandSomeAction(app: App, { roles }: HandlerCaller): void {
  if (roles === undefined) return;
  const defined = app.serving().roles;
  const mayChange = (id: string): boolean => {
    const actions = definitionOf(id, defined)?.actions ?? [];
    return actions === '*' || actions.length > 0;
  };
  if (roles.some(mayChange)) return;
  throw new SvcError('FORBIDDEN', `Your role in "${app.id}" changes nothing, so it stores and deletes no files.`);
}

function allows(role: RoleDefinition | undefined, kind: Target['kind'], tool: string): boolean {
  if (role === undefined) return false;
  const names = kind === 'query' ? role.queries : role.actions;
  return names === '*' || names.includes(tool);
}

/** Undefined where there is no such role. */
function definitionOf(id: string, defined: Roles = {}): RoleDefinition | undefined {
  if (Object.hasOwn(defined, id)) return defined[id];
  return id === 'viewer' ? VIEWER : undefined;
}
