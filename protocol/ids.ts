/** Checks and makes ids of apps, versions, workspaces and drafts (specification, "Ids and names"). */
import { SvcError } from './errors.ts';

const APP_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const ARCHIVE_VERSION = /^v_\d{8}T\d{9}Z_[0-9a-f]{6}$/;
/** A tag of the git store, `<app>/v<n>`. */
const TAG = /^[a-z0-9][a-z0-9_-]{0,62}\/v[1-9]\d{0,8}$/;
const CHOSEN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export function isAppId(id: string): boolean {
  return APP_ID.test(id);
}

/** Throws `RESERVED_ID` or `INVALID_ID`. */
export function checkAppId(id: string): void {
  const named = `The app id "${id.slice(0, 80)}"`;
  if (id.startsWith('_'))
    throw new SvcError('RESERVED_ID', `${named} starts with an underscore; those ids belong to the gateway.`);
  const rule = 'use 1 to 63 of a-z, 0-9, "-" and "_", starting with a letter or digit';
  if (!APP_ID.test(id)) throw new SvcError('INVALID_ID', `${named} is not valid: ${rule}.`);
}

/** A version id of the tarball backend; later uploads sort higher. */
export function isArchiveVersion(id: string): boolean {
  return ARCHIVE_VERSION.test(id);
}

export function isVersionId(id: string): boolean {
  return isArchiveVersion(id) || TAG.test(id);
}

/** `<app>/v<n>`: the tag of a published version, and its id. */
export function versionTag(app: string, number: number): string {
  return `${app}/v${number}`;
}

/** n of `<app>/v<n>`; null for the ids of other backends and other apps. */
export function versionNumber(app: string, tag: string): number | null {
  return TAG.test(tag) && tag.startsWith(`${app}/`) ? Number(tag.slice(app.length + 2)) : null;
}

export function isChosenId(id: string): boolean {
  return CHOSEN_ID.test(id);
}

/** In a cluster: what a workspace has of one app, `<workspace>~<app>`. The node that owns the app has it. */
export function workspacePart(workspace: string, app: string): string {
  return `${workspace}~${app}`;
}

/** Null for what is no name of a part. */
export function parseWorkspacePart(part: string): { workspace: string; app: string } | null {
  const [workspace = '', app = '', more] = part.split('~');
  return more === undefined && CHOSEN_ID.test(workspace) && APP_ID.test(app) ? { workspace, app } : null;
}

/** No workspace of this id is open. */
export function unknownWorkspace(id: string): SvcError {
  return new SvcError('UNKNOWN_SESSION', `There is no open workspace "${id.slice(0, 80)}"; open one first.`);
}

const DRAFTS = '_drafts/';

/** The key of a workspace's draft of an app, where a live app has its id: its folder, relative to those of the apps. */
export function draftKey(sessionId: string, app: string): string {
  return `${DRAFTS}${sessionId}/${app}`;
}

/** The key of a live app, which is its id, or of a workspace's draft of it. */
export function scopeKey(app: string, workspace: string | null | undefined): string {
  return workspace == null ? app : draftKey(workspace, app);
}

export function isDraftKey(key: string): boolean {
  return key.startsWith(DRAFTS);
}

/** Whether a database of this name is one of the gateway's own. No app can have such a name. */
export function isOwnDatabase(name: string): boolean {
  return name.startsWith('_') && !isDraftKey(name);
}

/** The app id of a key, which its users and its code see. */
export function appOfKey(key: string): string {
  return isDraftKey(key) ? key.slice(key.lastIndexOf('/') + 1) : key;
}

/** The workspace of a draft's key; undefined for a live app. */
export function workspaceOfKey(key: string): string | undefined {
  return isDraftKey(key) ? key.slice(DRAFTS.length, key.lastIndexOf('/')) : undefined;
}

/** `v_<YYYYMMDDTHHMMSSmmmZ>_<sha[:6]>`, for a time in milliseconds and a sha256 in hex. */
export function versionId(at: number, sha256: string): string {
  return `v_${new Date(at).toISOString().replace(/[-:.]/g, '')}_${sha256.slice(0, 6)}`;
}

/** When an archive was uploaded, as its version's id says; null for other ids. */
export function uploadTime(versionId: string): number | null {
  const [, ...parts] = /^v_(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z_/.exec(versionId) ?? [];
  if (parts.length === 0) return null;
  const [year = 0, month = 1, ...rest] = parts.map(Number);
  return Date.UTC(year, month - 1, ...rest);
}

/** An app id made from a name: `My Notes` → `my-notes`. Empty when no character of the name can stay. */
export function idFromName(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^[-_]+|-+$/g, '')
    .slice(0, 63);
}

/** `my-notes` → `My notes`. */
export function nameFromId(id: string): string {
  const words = id.replace(/[-_]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** `todos`, else `todos-2`, `todos-3`, …: the first that is not taken. */
export function freeId(id: string, taken: (id: string) => boolean): string {
  for (let n = 1; ; n++) {
    const suffix = n === 1 ? '' : `-${n}`;
    const candidate = id.slice(0, 63 - suffix.length) + suffix;
    if (!taken(candidate)) return candidate;
  }
}

/** `Todos`, else `Todos 2`, `Todos 3`, … */
export function freeName(name: string, taken: (name: string) => boolean): string {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name} ${n}`;
    if (!taken(candidate)) return candidate;
  }
}
