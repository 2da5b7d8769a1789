/** Names what the audit log records (specification, "Audit log"). */

/** What was done, with what its entry means. */
export const AUDIT_ACTIONS = {
  'sign-in': 'A browser signed in.',
  'sign-in.refused': 'Somebody tried to sign in with a wrong token, link, password or passkey.',
  'sign-in.link': 'A link was made that signs a browser in.',
  'sign-in.length': 'How long sign-ins last was changed.',
  'sign-out': 'A browser signed out.',
  'session.ended': 'A person was signed out in other browsers.',
  'password.set': 'A person got a password, or a new one.',
  'passkey.added': 'A person got a passkey.',
  'passkey.removed': 'A passkey of a person was removed.',
  'passkey.refused': 'A passkey was refused because its counter went back: somebody may have a copy of it.',
  'identity.linked': 'A person linked an account of a provider, by which they sign in.',
  'identity.unlinked': 'An account of a provider was unlinked from a person.',
  'invitation.made': 'Somebody was invited, or a link was made that signs a person in.',
  'invitation.withdrawn': 'An invitation was taken back.',
  'person.joined': 'Somebody took an invitation, or a provider or proxy let them in for the first time.',
  'person.changed': 'The name, address or role of a person was changed, or whether they may sign in.',
  'person.removed': 'A person was removed.',
  'group.changed': 'A group was made or changed.',
  'group.removed': 'A group was removed.',
  'share.given': 'Somebody got a role in an app.',
  'share.ended': 'Somebody lost their role in an app.',
  'link.opened': 'A link to an app was opened for the first time.',
  'connection.made': 'A person connected a program.',
  'connection.ended': 'What a program was given has ended.',
  'connection.reused': 'A code or token of a program was used twice, so what it was given has ended.',
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
  'node.drained': 'A node of the cluster was told to hand over what it has.',
  'node.resumed': 'A node of the cluster that was drained was let take its share again.',
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
  guest: 'a guest',
  machine: 'this machine',
};
