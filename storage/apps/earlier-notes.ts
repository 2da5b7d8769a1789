/**
 * Makes the journal of a data directory. Where a release without one ran, it takes over what that had noted of changes that a crash
 * cut off: `pending.json`, `incoming.json`, `disposable` and `removed.json` of an app, and on the git store `publishing/<id>.json`
 * and the records of workspaces.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isAppId } from '../../protocol/ids.ts';
import { object, text } from '../../protocol/shapes/schema.ts';
import { isRecord, shape } from '../../protocol/shapes/shape.ts';
import { exists, mkdirDurable, namesIn, readIfWhole, renameDurable, writeFileAtomic } from '../files/atomic-file.ts';
import { isObjectId } from '../git/object.ts';
import type { Layout } from '../layout.ts';
import type { Intent, VersionIntent } from './journal.ts';
import { commitOf } from './linked-code.ts';
import { readCurrent, removeVersion } from './versions.ts';

type Noted = Readonly<Record<string, unknown>>;
/** A workspace's note of what it was publishing. */
type Sent = { id: string; app: string; commit: string; files: string };
const PUBLISHING = object({ publishing: object({ commit: text, files: text }) });
const SENT = shape(object({ apps: { type: 'object', additionalProperties: PUBLISHING } }));

/** All or nothing after a crash. Costs one look where there is a journal. */
export async function openJournal(layout: Layout): Promise<void> {
  const { journalDir, codeStore } = layout;
  if (await exists(journalDir)) return;
  const making = `${journalDir}.tmp`;
  await rm(making, { recursive: true, force: true });
  await mkdirDurable(making);
  const publishingDir = codeStore === null ? null : join(codeStore.dir, 'publishing');
  const publishing = publishingDir === null ? [] : await namesIn(publishingDir);
  const names = [...(await namesIn(layout.appsDir)), ...publishing.map((name) => name.replace(/\.json$/, ''))];
  const ids = [...new Set(names)].filter(isAppId);
  const sent = await sentByWorkspaces(layout);
  for (const id of ids) {
    const change = publishingDir === null ? undefined : await readIfWhole(join(publishingDir, `${id}.json`));
    const intent = await intentOf(layout, id, change, sent);
    if (intent !== null) await writeFileAtomic(join(making, `${id}.json`), `${JSON.stringify(intent)}\n`);
  }
  await renameDurable(making, journalDir);
  for (const id of ids) for (const name of NOTES) await rm(join(layout.app(id).dir, name), { force: true });
  if (publishingDir !== null) await rm(publishingDir, { recursive: true, force: true });
}

/** `removed.json` stays: in the trash it says what the app had. */
const NOTES = ['pending.json', 'incoming.json', 'disposable'];

/** `damaged` stands for a change of the git store that cannot be read. */
async function intentOf(layout: Layout, id: string, change: unknown, sent: Sent[]): Promise<Intent | 'damaged' | null> {
  const app = layout.app(id);
  const [pending, incoming] = [
    await noteIn(join(app.dir, 'pending.json')),
    await noteIn(join(app.dir, 'incoming.json')),
  ];
  const purge = await exists(join(app.dir, 'disposable'));
  const { kind, ...begun } = isRecord(change) ? change : ({} as Noted);
  const versionId = [pending, incoming, begun].map((note) => note?.versionId).find((one) => typeof one === 'string');
  if (kind === 'remove') return { kind, purge };
  if (versionId === undefined) {
    if (change !== undefined) return 'damaged';
    if (purge || (await exists(app.removed))) return { kind: 'remove', purge };
    return followingOf(layout, id, sent);
  }
  // An upload over an activation that could not be settled: it was dropped with a start.
  const dropped = incoming?.versionId;
  if (typeof dropped === 'string' && dropped !== versionId) {
    await mkdirDurable(layout.tmpDir);
    await removeVersion(app, dropped, layout.tmpDir);
  }
  const isBegun = begun.versionId === versionId && typeof begun.commit === 'string' && isObjectId(begun.commit);
  const commit = isBegun ? (begun.commit as string) : null;
  const stays = isBegun ? kind === 'activate' : dropped !== versionId;
  return {
    kind: isBegun && kind === 'store' ? 'store' : stays ? 'activate' : 'publish',
    versionId: versionId as string,
    commit,
    migrations: typeof pending?.migrations === 'number' ? pending.migrations : null,
    ...workspaceOf(id, commit, sent),
  };
}

/** The version is live as noted, and only its workspace has not got what it published. */
async function followingOf(layout: Layout, id: string, sent: Sent[]): Promise<VersionIntent | null> {
  const current = await readCurrent(layout.app(id));
  if (layout.codeStore === null || current === null || current === 'damaged') return null;
  if (!sent.some(({ app }) => app === id)) return null;
  const versionId = current.activeVersion;
  const commit = await commitOf(layout.app(id), versionId, layout.codeStore);
  const from = workspaceOf(id, commit, sent);
  return 'session' in from ? { kind: 'publish', versionId, commit, migrations: null, ...from } : null;
}

function workspaceOf(id: string, commit: string | null, sent: Sent[]): Pick<VersionIntent, 'session'> {
  const one = sent.find((note) => note.app === id && note.commit === commit);
  return one === undefined ? {} : { session: { id: one.id, files: one.files } };
}

async function sentByWorkspaces({ codeStore }: Layout): Promise<Sent[]> {
  if (codeStore === null) return [];
  const all: Sent[] = [];
  for (const id of await namesIn(codeStore.workspacesDir)) {
    const sent = SENT.part(await noteIn(codeStore.workspace(id).record));
    for (const [app, { publishing }] of Object.entries(sent?.apps ?? {})) all.push({ id, app, ...publishing });
  }
  return all;
}

/** Null without one; a damaged one says nothing. */
async function noteIn(path: string): Promise<Noted | null> {
  const value = await readIfWhole(path).catch(() => null);
  return isRecord(value) ? value : null;
}
