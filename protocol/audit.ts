/** Names what the audit log records (specification, "Audit log"). */

/** What was done, with what its entry means. */
export const AUDIT_ACTIONS = {
  'sign-in': 'A browser signed in.',
  'sign-in.refused': 'Somebody tried to sign in with a wrong token or link.',
  'sign-in.link': 'A link was made that signs a browser in.',
  'sign-in.length': 'How long sign-ins last was changed.',
  'sign-out': 'A browser signed out.',
  'token.made': 'A token for a program was made.',
  'token.revoked': 'A token for a program was revoked.',
  'token.rotated': "The administrator's token was replaced.",
  'secret.set': 'A secret of an app got a value.',
  'secret.removed': 'A secret of an app was removed.',
  'app.published': 'A version of an app was stored or went live.',
  'app.removed': 'An app was removed.',
  'app.restored': 'A removed app was restored from the trash.',
  'app.deleted': 'A removed app was deleted from the trash.',
  'version.deleted': 'A stored version of an app was deleted.',
} as const;

export type AuditAction = keyof typeof AUDIT_ACTIONS;

/** What an entry says besides its action and target, in words: "version todos/v3, not live". */
export function detailWords(detail: Readonly<Record<string, unknown>>): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => {
      if (typeof value === 'boolean') return value ? name : `not ${name}`;
      return name === 'more' ? String(value) : `${name} ${Array.isArray(value) ? value.join(', ') : value}`;
    })
    .join(', ');
}

/** Who did it, in words: the kind, and the name where there is one. */
export function actorWords({ kind, name }: { kind: string; name?: string }): string {
  return name === undefined ? (ACTORS[kind] ?? kind) : `${name} (${kind})`;
}

const ACTORS: Record<string, string> = {
  admin: 'administrator',
  session: 'browser',
  host: 'host',
  public: 'somebody unknown',
  machine: 'this machine',
};
