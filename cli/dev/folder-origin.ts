/**
 * Keeps in an app folder, in `.svc-app`, which version of which app its files were last pushed, published or pulled as, and compares
 * that with what is live (specification, "Uploads").
 */
import { createHash } from 'node:crypto';
import { readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { VersionRecord } from '../../protocol/answer-types.ts';
import { SvcError } from '../../protocol/errors.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { isArchiveVersion, isVersionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ORIGIN_FILE } from '../../protocol/rules/archive-rules.ts';
import { formatted, object, text } from '../../protocol/shapes/schema.ts';
import { shape, type ValueOf } from '../../protocol/shapes/shape.ts';
import { fileFault } from '../failure.ts';
import type { Client } from '../gateway/client.ts';
import { readList } from '../resource.ts';
import { VERSIONS } from '../resources.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatAge } from '../terminal/units.ts';

const NAME_CHARS = 32;

/** `commit` is that of the version, on the git store; `gateway` the address of the gateway that has it. */
const ORIGIN = shape(
  object({ app: text, version: formatted('version id', 'a version') }, { commit: text, gateway: text }),
);
export type Origin = ValueOf<typeof ORIGIN>;

/** Null for a folder that says nothing, or something about another app. */
export function readOrigin(folder: string, app: string): Origin | null {
  try {
    const origin = ORIGIN.part(JSON.parse(readFileSync(join(folder, ORIGIN_FILE), 'utf8')));
    return origin?.app === app ? origin : null;
  } catch {
    // Without it nothing is known of the folder, as before its first push.
    return null;
  }
}

/** The same for the same place on the same machine, and for no copy of it. */
export function nameOf(folder: string): string {
  return createHash('sha256')
    .update(`${hostname()}\0${realpathSync(folder)}`)
    .digest('hex')
    .slice(0, NAME_CHARS);
}

/** The files are this version's from now on. A folder that cannot be written to goes without, which `terminal` says. */
export function writeOrigin(folder: string, origin: Origin, terminal?: Terminal): void {
  try {
    writeFileSync(join(folder, ORIGIN_FILE), `${JSON.stringify(origin)}\n`);
  } catch (error) {
    terminal?.warn(
      `${fileFault(error) ?? `${ORIGIN_FILE} cannot be written.`} The next push cannot tell what is newer.`,
    );
  }
}

/** Notes the version that is of this folder now. */
export async function noteVersion(
  client: Client,
  folder: string,
  { app, version }: Origin,
  terminal?: Terminal,
): Promise<void> {
  if (!isVersionId(version)) return;
  const rows = isArchiveVersion(version) ? [] : await versionsOf(client, app).catch(() => []);
  const commit = rows.find(({ versionId }) => versionId === version)?.commit;
  writeOrigin(folder, { app, version, ...(commit !== undefined && { commit }), gateway: client.url }, terminal);
}

/** The newest versions of an app, the newest first; none of an app that there is not, and of a gateway that does not list them. */
export async function versionsOf(client: Client, app: string): Promise<VersionRecord[]> {
  try {
    return (await readList(client, VERSIONS, [app], { limit: LIMITS.listRowsMax })).rows;
  } catch (error) {
    if (error instanceof GatewayError && (error.code === 'UNKNOWN_APP' || error.code === 'NOT_FOUND')) return [];
    throw error;
  }
}

/** The version that the folder names, if this gateway has it. An equal name alone may be that of another gateway's version. */
export function knownOrigin(origin: Origin | null, rows: VersionRecord[]): VersionRecord | undefined {
  return rows.find(({ versionId, commit }) => versionId === origin?.version && commit === origin.commit);
}

/**
 * The live version that a push of the folder may take the place of; null where it may be any. `content` is the hash of what is sent,
 * asked for only when the folder does not say what it is: content of an older version than the live one is `older`.
 */
export async function mayReplace(
  client: Client,
  origin: Origin | null,
  rows: VersionRecord[],
  content: () => Promise<string>,
): Promise<{ ifLive: string | null; older?: { is: VersionRecord; live: VersionRecord } }> {
  const at = rows.findIndex(({ active }) => active);
  const live = rows[at];
  if (live === undefined) return { ifLive: null };
  const known = knownOrigin(origin, rows);
  // Who rolled back knows: what is live then is older than what the folder had.
  if (known !== undefined) return { ifLive: rows.indexOf(known) < at ? live.versionId : known.versionId };
  // The tarball store keeps a few versions, whose names no other gateway gives.
  if (origin !== null && live.commit === undefined && origin.gateway === client.url) return { ifLive: origin.version };
  if (rows.length === at + 1) return { ifLive: null };
  const hash = await content();
  const is = live.sha256 === hash ? undefined : rows.slice(at + 1).find(({ sha256 }) => sha256 === hash);
  return is === undefined ? { ifLive: null } : { ifLive: live.versionId, older: { is, live } };
}

/** Asks whether older files shall become live. Throws `WOULD_REPLACE` for a no, and where nobody can be asked. */
export async function confirmOlder(
  terminal: Terminal,
  { is, live }: { is: VersionRecord; live: VersionRecord },
): Promise<void> {
  const what = `These are the files of ${is.versionId}, and live is ${drawVersion(live)}`;
  const canAsk = terminal.stdin.isTTY === true && !terminal.json;
  if (canAsk && (await terminal.confirm(`${what}. Make the older ones live?`))) return;
  throw new SvcError('WOULD_REPLACE', `${what}; nothing was changed.`);
}

/** `notes/v3, published 2 h ago by Ann`. */
export function drawVersion({
  versionId,
  uploadedAt,
  by,
}: Pick<VersionRecord, 'versionId' | 'uploadedAt' | 'by'>): string {
  return `${versionId}, published ${formatAge(uploadedAt, Date.now())}${by === undefined ? '' : ` by ${by}`}`;
}
