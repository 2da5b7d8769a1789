/** Decides what a token for a program may do: one table from kinds of requests to kinds of tokens (decisions, section 11). */
import { appOfKey, isDraftKey } from '../../../protocol/ids.ts';

/**
 * What a request needs. Each but `admin` is about one app: its page and files (`page`), describe and queries (`read`), actions
 * (`write`), its change stream, its stored settings, talking with an agent about its data (`chat`), and the rest: code,
 * versions, logs, runs, SQL (`manage`).
 */
export type Capability = 'page' | 'read' | 'write' | 'stream' | 'settings' | 'chat' | 'manage' | 'admin';

/** `read` calls queries and describes, `write` calls actions too, `all` does everything else with its apps. */
export type GrantTools = 'read' | 'write' | 'all';

/** The rights of a token for a program. `apps` null means every app, including later ones; `expiresAt` null means never. */
export type Grant = {
  readonly id: string;
  readonly name: string;
  readonly apps: readonly string[] | null;
  readonly tools: GrantTools;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | null;
};

/** The least that a token must be for; null is no token of a program. */
const LEAST: Record<Capability, GrantTools | null> = {
  page: 'read',
  read: 'read',
  stream: 'read',
  write: 'write',
  settings: 'write',
  chat: 'all',
  manage: 'all',
  admin: null,
};

const RANK: Record<GrantTools, number> = { read: 0, write: 1, all: 2 };

/**
 * Whether the grant allows `capability` on `app`, the key of a live app or of a draft; null means a request about all apps,
 * which needs a grant for every app. A draft needs the right to manage its app.
 */
export function may(grant: Pick<Grant, 'apps' | 'tools'>, capability: Capability, app: string | null): boolean {
  const isDraft = app !== null && isDraftKey(app);
  const least = isDraft && capability !== 'admin' ? 'all' : LEAST[capability];
  if (least === null || !(RANK[grant.tools] >= RANK[least])) return false;
  return grant.apps === null || (app !== null && grant.apps.includes(appOfKey(app)));
}
