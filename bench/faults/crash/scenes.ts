/** The states from which operations are crashed: two apps, of which `main` has versions, data, settings and backups. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { LIMITS } from '../../../protocol/limits.ts';
import { objectId, wrapObject } from '../../../storage/git/object.ts';
import type { CodeStorePaths } from '../../../storage/layout.ts';
import { AUTHORING_SCENES, type AuthoringScene, fillWorkspace } from './authoring-scenes.ts';
import {
  automatedVersionOf,
  copyOf,
  expectStatus,
  hooked,
  type Scene,
  SIGNED,
  versionOf,
  type World,
  worldOf,
} from './world.ts';

export type SceneName = keyof typeof FILLS | AuthoringScene;

type Fill = (world: World) => Promise<unknown>;

export type Operation = {
  name: string;
  scene: SceneName;
  /** Does it; resolves with its status. Rejects when the process that would answer is gone. */
  run(world: World): Promise<number>;
  /** Statuses that it may answer when it had taken effect and is done again. */
  again: number[];
  /** Starts the gateway itself. */
  starts?: true;
  /** Keeps what its crash did not prune for the next time. */
  prunes?: true;
  /** No load meanwhile: its writes would pass the same points, or lie where the check of the load does not look. */
  quiet?: true;
};

/** What is done in a new folder; then the gateway is stopped. */
const FILLS = {
  plain: fill,
  stored: async (world) => {
    await fill(world);
    await expectStatus(201, world.gateway.upload('main', versionOf('main', 3), '?activate=0'));
  },
  automated: async (world) => {
    await fill(world);
    const { json } = await expectStatus(201, world.gateway.upload('main', automatedVersionOf('main', 3)));
    await world.gateway.stop();
    // As somebody may who wants a new address: it is minted when that is asked for.
    const app = world.layout.app('main');
    writeFileSync(join(app.version((json as { versionId: string }).versionId).code, SIGNED), hooked(true));
    rmSync(app.webhookKeys);
  },
  crashed: async (world) => {
    await fill(world);
    await world.gateway.kill();
    leaveRubbish(world);
  },
  earlier: async (world) => {
    await fill(world);
    const { json } = await expectStatus(201, world.gateway.upload('main', versionOf('main', 3), '?activate=0'));
    await world.gateway.stop();
    const { dir } = world.layout.app('main');
    const { versionId } = json as { versionId: string };
    writeFileSync(join(dir, 'incoming.json'), JSON.stringify({ versionId }));
    writeFileSync(join(dir, 'pending.json'), JSON.stringify({ versionId, migrations: 3 }));
    leaveEarlierRemoval(world);
  },
  empty: makeDataDir,
  removed: fillAndRemove,
  'other-disk': fill,
  'removed-other-disk': fillAndRemove,
  git: fill,
  'git-removed': fillAndRemove,
  'git-long': async (world) => {
    await fill(world);
    await world.gateway.install('main', versionOf('main', 3));
  },
  'git-loose': async (world) => {
    await fill(world);
    await world.gateway.stop();
    addLooseObjects(world);
  },
  'git-earlier': async (world) => {
    await fill(world);
    await world.gateway.stop();
    const folder = join((world.layout.codeStore as CodeStorePaths).dir, 'publishing');
    mkdirSync(folder);
    writeFileSync(join(folder, 'gone.json'), '{"kind":"remove"}');
    leaveEarlierRemoval(world);
  },
  'git-empty': makeDataDir,
} satisfies Record<string, Fill>;

/**
 * Makes these scenes below `folder`, and what they begin with. `otherDisk` is a folder on another file system; without one
 * there is no scene of that name.
 */
export async function makeScenes(
  folder: string,
  names: Iterable<SceneName>,
  otherDisk: string | null,
  shim: string,
): Promise<Map<SceneName, Scene>> {
  const scenes = new Map<SceneName, Scene>();
  const make = async (name: SceneName): Promise<Scene> => {
    const made = scenes.get(name);
    if (made !== undefined) return made;
    const path = join(folder, name);
    const appsDir = needsOtherDisk(name) && otherDisk !== null ? join(otherDisk, `${name}-apps`) : null;
    const store = name.startsWith('git') ? 'git' : 'tarball';
    const isAuthoring = name in AUTHORING_SCENES;
    const scene: Scene = { folder: path, appsDir, store, shim };
    const world = isAuthoring ? copyOf(await make('git'), path) : worldOf(scene);
    await (isAuthoring ? fillWorkspace(world, name as AuthoringScene) : FILLS[name as keyof typeof FILLS](world));
    await world.gateway.stop();
    scenes.set(name, scene);
    return scene;
  };
  for (const name of names) await make(name);
  return scenes;
}

export function needsOtherDisk(scene: SceneName): boolean {
  return scene.endsWith('other-disk');
}

async function makeDataDir({ layout }: World): Promise<void> {
  mkdirSync(layout.dataDir, { recursive: true, mode: 0o700 });
}

async function fillAndRemove(world: World): Promise<void> {
  await fill(world);
  await expectStatus(200, world.gateway.call('DELETE', '/svc/_apps/gone'));
}

async function fill(world: World): Promise<void> {
  await world.start();
  const { gateway, layout } = world;
  await gateway.install('main', versionOf('main', 1));
  await gateway.install('main', versionOf('main', 2));
  await gateway.install('gone', versionOf('gone', 1));
  for (const app of ['main', 'gone']) await expectStatus(201, gateway.write(app, 'put', { key: 'first', value: 1 }));
  await expectStatus(200, gateway.call('PUT', '/svc/_apps/main/settings', { body: { theme: 'old' } }));
  await expectStatus(200, gateway.call('PUT', '/_svc-user/prefs', { body: { patch: { language: 'old', size: 1 } } }));
  // As many as are kept: the next migration prunes one.
  const { backupsDir } = layout.app('main');
  mkdirSync(backupsDir, { recursive: true });
  for (const day of [1, 2, 3]) writeFileSync(join(backupsDir, `2020010${day}T000000000Z_1.sqlite`), '');
}

/** More than the git store leaves loose. */
function addLooseObjects({ layout }: World): void {
  const { repository } = layout.codeStore as CodeStorePaths;
  for (let n = 0; n < LIMITS.gitLooseObjects; n++) {
    const content = Buffer.from(`loose ${n}`);
    const id = objectId('blob', content);
    const path = join(repository, 'objects', id.slice(0, 2), id.slice(2));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, deflateSync(wrapObject('blob', content)));
  }
}

/** What a release without a journal leaves of a removal that was cut off once the app was not registered any more. */
function leaveEarlierRemoval({ layout }: World): void {
  const removal = { removedAt: 1_700_000_000_000, versions: [1] };
  writeFileSync(layout.app('gone').removed, JSON.stringify(removal));
  const { apps, removed } = JSON.parse(readFileSync(layout.registry, 'utf8')) as { apps: object; removed: string[] };
  const registered = Object.fromEntries(Object.entries(apps).filter(([id]) => id !== 'gone'));
  writeFileSync(layout.registry, JSON.stringify({ apps: registered, removed: [...removed, 'gone'] }));
  rmSync(layout.journalDir, { recursive: true });
}

/** What a dead gateway may leave: a damaged registry, half a version, an unfinished upload, old trash. */
function leaveRubbish({ layout }: World): void {
  writeFileSync(layout.registry, '{"apps": {');
  rmSync(layout.profile);
  const upload = join(layout.tmpDir, 'upload-cut-off');
  mkdirSync(upload);
  writeFileSync(join(upload, 'upload.tgz'), 'half');
  mkdirSync(join(layout.trashDir, 'old-1500000000000'));
  const half = layout.app('main').version('v_20200101T000000000Z_000000');
  mkdirSync(half.code);
  mkdirSync(half.prepared);
}
