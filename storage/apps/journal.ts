/**
 * Keeps the journal: for each app the change that is under way, from before its first step until its last is done (docs/architecture.md,
 * "From draft to live"). After a crash, and before the next change of the app, it says what to finish or to undo.
 */
import { isAppId } from '../../protocol/ids.ts';
import { flag, object, oneOf, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import {
  clearPlace,
  isThere,
  mkdirDurable,
  namesIn,
  readIfWhole,
  removeDurable,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { OBJECT_ID } from '../git/object.ts';
import type { Layout } from '../layout.ts';
import { sweepTemporary } from './trash.ts';

/** `publish` makes a new version live, `store` only keeps it, `activate` makes a stored one live. */
export type VersionIntent = {
  kind: 'publish' | 'store' | 'activate';
  versionId: string;
  /** The commit of `main` that makes it so; null on the tarball store, and where `main` says so already. */
  commit: string | null;
  /** The `user_version` that its migrations lead the data to; null where it has none to run, and the app's pointer alone decides. */
  migrations: number | null;
  /** The workspace that it comes from, and a fingerprint of the files that it sent; absent for any other change. */
  session?: { id: string; files: string };
};

/** `remove` says as well that a restoration from the trash did not happen. */
export type Intent = VersionIntent | { kind: 'remove'; purge: boolean };

const INTENT = shape({
  anyOf: [
    object({ kind: { const: 'remove' }, purge: flag }),
    object(
      {
        kind: oneOf('publish', 'store', 'activate'),
        versionId: text,
        commit: { anyOf: [OBJECT_ID, { type: 'null' }] },
        migrations: { type: ['integer', 'null'] },
      },
      { session: object({ id: text, files: text }) },
    ),
  ],
});

/** Null when there is none; `damaged` for one that was changed or replaced by hand. */
export async function readIntent(layout: Layout, app: string): Promise<Intent | 'damaged' | null> {
  const value = await readIfWhole(layout.intent(app));
  return value === undefined ? null : INTENT.holds(value) ? value : 'damaged';
}

/** The same for an intention that concerns a version. */
export async function readVersionIntent(layout: Layout, app: string): Promise<VersionIntent | null> {
  const intent = await readIntent(layout, app);
  return intent === null || intent === 'damaged' || intent.kind === 'remove' ? null : intent;
}

/** Durable when it resolves; takes the place of an earlier one. When it rejects, there is none, or the earlier one. */
export async function writeIntent(layout: Layout, app: string, intent: Intent): Promise<void> {
  const path = layout.intent(app);
  await mkdirDurable(layout.journalDir);
  await clearPlace(path);
  await writeFileAtomic(path, `${JSON.stringify(intent)}\n`);
}

export async function removeIntent(layout: Layout, app: string): Promise<void> {
  const path = layout.intent(app);
  if (!(await isThere(path))) return;
  await clearPlace(path);
  await removeDurable(path);
}

/** Ids of the apps that have one. */
export async function listIntents(layout: Layout): Promise<string[]> {
  await sweepTemporary(layout.journalDir);
  const names = await namesIn(layout.journalDir);
  return names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : [])).filter(isAppId);
}
