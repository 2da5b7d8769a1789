/** Names the host labels of apps and drafts, and the pages they are for (specification, "Origins"). Pure. */
import { createHash } from 'node:crypto';

/** The console's host name on the gateway's own machine. Browsers resolve names below `localhost` to loopback. */
export const LOCAL_BASE = 'svc.localhost';
/** Drafts live one label deeper than apps: `<sid>--<app>.draft.<base>`. */
export const DRAFT_LABEL = 'draft';

const LABEL_CHARS = 63;
const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
/** The label of an id that is not a host label itself. */
const STAND_IN = /^a-[0-9a-f]{12}$/;

/** The host label of an id; `a-<12 hex of its sha256>` for one that is none, or could mean something else. */
export function appLabel(id: string): string {
  const isPlain = LABEL.test(id) && id.length <= LABEL_CHARS && !id.includes('--') && id !== DRAFT_LABEL;
  return isPlain && !STAND_IN.test(id) ? id : standIn(id);
}

/** The host label of a workspace's draft of an app. */
export function draftLabel(workspace: string, app: string): string {
  const label = `${appLabel(workspace)}--${appLabel(app)}`;
  return label.length <= LABEL_CHARS ? label : `${standIn(workspace)}--${standIn(app)}`;
}

/** The app whose label this is; null for a hashed label. */
export function appOfLabel(label: string): string | null {
  return appLabel(label) === label ? label : null;
}

/** The workspace and the app whose draft label this is; null for a hashed label, or for one that is not a draft's. */
export function draftOfLabel(label: string): { workspace: string; app: string } | null {
  const [workspace, app, more] = label.split('--');
  if (workspace === undefined || app === undefined || more !== undefined) return null;
  return appOfLabel(workspace) === null || appOfLabel(app) === null ? null : { workspace, app };
}

/** The first 12 hex digits of the SHA-256 of the app's id, by the labels of its page or of a draft of it, hashed or not. */
export function digestOfLabel(labels: string): string {
  const [label = ''] = labels.split('.', 1);
  const app = label.split('--').at(-1) ?? '';
  return (STAND_IN.test(app) ? app : standIn(app)).slice('a-'.length);
}

function standIn(id: string): string {
  return `a-${createHash('sha256').update(id).digest('hex').slice(0, 12)}`;
}

/** A page that has an origin: of a live app, or of a workspace's draft of one. */
export type PageOwner = { app: string; workspace?: string | undefined };

/** The host label or labels of a page, below the base. */
export function pageHost({ app, workspace }: PageOwner): string {
  return workspace === undefined ? appLabel(app) : `${draftLabel(workspace, app)}.${DRAFT_LABEL}`;
}

/** The path of a page: it works at the page's own origin and redirects there from the console's. */
export function pagePath({ app, workspace }: PageOwner): string {
  return workspace === undefined ? `/svc/${app}` : `/svc/_draft/${workspace}/${app}`;
}

const PAGE_PATH = /^\/svc\/(?:_draft\/([A-Za-z0-9][A-Za-z0-9_-]{0,63})\/)?([a-z0-9][a-z0-9_-]{0,62})(?:\/|$)/;

/** The page that a path belongs to, whether the app exists or not; null for a path that is not a page's. */
export function ownerOfPath(path: string): PageOwner | null {
  const [, workspace, app] = PAGE_PATH.exec(path) ?? [];
  if (app === undefined) return null;
  return workspace === undefined ? { app } : { app, workspace };
}

/** The app or draft of the page. In a draft, `version` names the state of the files that the page was made from. */
export type BridgeOwner = { app: string; draft?: { workspace: string; version: string } };

/** The ids and the version hold no character that would need escaping. A draft's page gets what helps its author, too. */
export function bridgeTag({ app, draft }: BridgeOwner): string {
  if (draft === undefined) return `<script src="/svc/_client.js" data-app="${app}"></script>`;
  const of = `data-app="${app}" data-draft="${draft.workspace}" data-version="${draft.version}"`;
  return `<script src="/svc/_client.js" ${of}></script><script src="/svc/_dev.js"></script>`;
}

/** What names a state of a draft's files, by the sha256 of its content in hex. */
export function draftVersion(sha256: string): string {
  return sha256.slice(0, 16);
}
