/** Lists and ends over HTTP what people gave to programs (specification, "Connected programs"). */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey, workspaceOfKey } from '../../../protocol/ids.ts';
import { endConnection, listConnections } from '../../../protocol/routes/people/oauth-rows.ts';
import { type Caller, may } from '../../http/access/grants.ts';
import { PersonCaller } from '../../http/access/person.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';
import { definedRole } from './roles.ts';
import { accessOf } from './signing-in.ts';

export function connectionRoutes(services: Services): Route[] {
  const { accounts, audit } = services;
  return [
    ...serve(listConnections, ({ params, caller }) => {
      accessOf(services);
      const all = accounts.connections.of(whose(params.pid, caller)).map(async (one) => {
        const { id, name, role, createdAt, lastUsedAt, expiresAt } = one;
        const to = connectedTo(services, one.app);
        const defined = to.app === null ? undefined : await definedRole(services, to.app.id, role);
        const named = defined && { roleName: defined.name };
        return { id, name, ...to, role, ...named, createdAt, lastUsedAt, expiresAt };
      });
      return Promise.all(all);
    }),
    ...serve(endConnection, async ({ params, caller }) => {
      accessOf(services);
      const person = whose(params.pid, caller);
      const ended = await accounts.connections.end(person, params.connection);
      if (ended === null) return { ended: 0 };
      const { name: program, app, role } = ended;
      await audit.record(caller, 'connection.ended', person, { program, app, role });
      return { ended: 1 };
    }),
  ];

  /** The id of a person; null for the administrator, who has no account. Throws `FORBIDDEN` and `UNKNOWN_PERSON`. */
  function whose(pid: string, caller: Caller): string | null {
    const self = caller instanceof PersonCaller ? caller.person.id : null;
    const id = pid === 'me' ? self : pid;
    if (id !== self && !may(caller, 'admin', null))
      throw new SvcError(
        'FORBIDDEN',
        "This is another person's account; an owner of the gateway may see and change it.",
      );
    return id === null ? null : accounts.people.get(id).id;
  }
}

/** The app or draft of a key, as people know it; every app for null. */
export function connectedTo({ registry }: Services, key: string | null) {
  if (key === null) return { app: null, workspace: null };
  const id = appOfKey(key);
  return {
    app: { id, name: registry.loaded(id)?.active?.name ?? id },
    workspace: workspaceOfKey(key) ?? null,
  };
}
