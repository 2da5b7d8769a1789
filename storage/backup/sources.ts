/** What of a data directory goes into a backup, and under which path. */
import { join } from 'node:path';
import type { BackupSource } from '../../protocol/backup.ts';
import { type AppPaths, type CodeStorePaths, Layout } from '../layout.ts';

/** Paths in a backup are those of a data directory whose apps lie in it. */
const PLACES = new Layout('/', undefined, 'code-store');
const STORE = PLACES.codeStore as CodeStorePaths;

/**
 * What belongs to the gateway as a whole. It is packed before the apps: an idempotency key that is in the backup then was
 * recorded before the copy of the data that it speaks of was made.
 */
export function gatewaySources(layout: Layout, config: string | null): BackupSource[] {
  const databases = (['runtimeDb', 'identityDb', 'analyticsDb'] as const).map(
    (name): BackupSource => ({ kind: 'database', path: inBackup(PLACES[name]), from: layout[name] }),
  );
  const profile: BackupSource = { kind: 'file', path: inBackup(PLACES.profile), from: layout.profile };
  return [
    ...databases,
    profile,
    ...(config === null ? [] : [{ kind: 'text', path: 'config.json', text: config } as const]),
  ];
}

/**
 * What belongs to one app: its pointer, data, settings and keys of webhooks, and the versions that are kept, as uploaded and as prepared.
 * Not its log, and not the copies of its data from before migrations.
 */
export function appSources(id: string, app: AppPaths): BackupSource[] {
  const places = PLACES.app(id);
  const file = (name: 'current' | 'pending' | 'settings' | 'webhookKeys'): BackupSource => ({
    kind: 'file',
    path: inBackup(places[name]),
    from: app[name],
  });
  return [
    file('current'),
    file('pending'),
    { kind: 'database', path: inBackup(places.data), from: app.data },
    file('settings'),
    file('webhookKeys'),
    { kind: 'versions', path: inBackup(places.versionsDir), from: app.versionsDir },
    { kind: 'versions', path: inBackup(places.preparedDir), from: app.preparedDir },
  ];
}

/**
 * The git store: the repository and the sessions' files. Packed after the apps, so that every version that is live in the
 * backup has its tag, and the refs before the objects, so that what they name is there.
 */
export function storeSources({ codeStore }: Layout): BackupSource[] {
  if (codeStore === null) return [];
  const { repository, sessionsDir } = codeStore;
  const part = (kind: 'file' | 'folder', name: string): BackupSource => ({
    kind,
    path: `${inBackup(STORE.repository)}/${name}`,
    from: join(repository, name),
  });
  return [
    { kind: 'text', path: inBackup(PLACES.storeMark), text: '{"appsStoreRoot":"code-store"}\n' },
    part('file', 'HEAD'),
    part('file', 'config'),
    part('folder', 'refs'),
    part('file', 'packed-refs'),
    part('folder', 'objects'),
    { kind: 'folder', path: inBackup(STORE.sessionsDir), from: sessionsDir },
  ];
}

/** The registry, as the gateway itself writes it. */
export function registrySource(text: string): BackupSource {
  return { kind: 'text', path: inBackup(PLACES.registry), text };
}

function inBackup(place: string): string {
  return place.slice(PLACES.dataDir.length);
}
