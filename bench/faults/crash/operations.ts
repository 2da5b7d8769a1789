/** The operations that are crashed between their steps. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { root } from '../../../testing/gateway.ts';
import { pause } from '../../../testing/waiting.ts';
import { AUTHORING_OPERATIONS } from './authoring-operations.ts';
import { isPacking } from './loose-objects.ts';
import type { Operation } from './scenes.ts';
import { automatedVersionOf, versionOf } from './versions.ts';
import { call, type World } from './world.ts';

const POLL_MS = 20;
const PACK_MS = 20_000;

const upload =
  (app: string, files: Record<string, string>, query = '') =>
  async ({ gateway }: World): Promise<number> =>
    (await gateway.upload(app, files, query)).status;

/** On both kinds of store. */
const ON_EITHER: Omit<Operation, 'scene'>[] = [
  { name: 'first upload', run: upload('fresh', versionOf('fresh', 3)), again: [200] },
  { name: 'first upload that fails', run: upload('fresh', versionOf('fresh', 3, true)), again: [] },
  { name: 'upload with migrations', run: upload('main', versionOf('main', 3)), again: [200], prunes: true },
  { name: 'upload whose migration fails', run: upload('main', versionOf('main', 3, true)), again: [] },
  {
    name: 'upload without activation',
    run: upload('main', versionOf('main', 3), '?activate=0'),
    again: [200],
    prunes: true,
  },
  { name: 'rollback', run: (world) => activate(world, '1.0.0'), again: [200] },
  { name: 'delete a version', run: (world) => deleteVersion(world, '1.0.0'), again: [404] },
  { name: 'delete to the trash', run: call('DELETE', '/svc/_apps/gone'), again: [404] },
];

export const OPERATIONS: Operation[] = [
  ...ON_EITHER.map((one): Operation => ({ ...one, scene: 'plain' })),
  {
    name: 'upload with webhooks',
    scene: 'plain',
    run: upload('main', automatedVersionOf('main', 3)),
    again: [200],
    prunes: true,
  },
  {
    name: 'upload with webhooks whose migration fails',
    scene: 'plain',
    run: upload('main', automatedVersionOf('main', 3, true)),
    again: [],
  },
  {
    name: 'switching an automation off',
    scene: 'automated',
    run: call('POST', '/svc/_automations/main/plain/enabled', { enabled: false }),
    again: [200],
  },
  {
    name: 'minting a webhook',
    scene: 'automated',
    run: call('POST', '/svc/_automations/_provision', { app: 'main' }),
    again: [200],
  },
  { name: 'activation with migrations', scene: 'stored', run: (world) => activate(world, '3.0.0'), again: [200] },
  {
    name: 'delete to a trash on another disk',
    scene: 'other-disk',
    run: call('DELETE', '/svc/_apps/gone'),
    again: [404],
    quiet: true,
  },
  { name: 'delete with purge', scene: 'plain', run: call('DELETE', '/svc/_apps/gone?purge=1'), again: [404] },
  { name: 'settings', scene: 'plain', run: call('PUT', '/svc/_apps/main/settings', { theme: 'new' }), again: [200] },
  {
    name: 'preferences',
    scene: 'plain',
    run: call('PUT', '/_svc-user/prefs', { patch: { language: 'new', size: 2 } }),
    again: [200],
    quiet: true,
  },
  { name: 'token rotation', scene: 'plain', run: rotateToken, again: [0] },
  { name: 'first start', scene: 'empty', run: start, again: [0], starts: true },
  { name: 'start after a crash', scene: 'crashed', run: start, again: [0], starts: true },
  ...ON_EITHER.map(({ name, run, again }): Operation => ({ name: `${name}, git`, scene: 'git', run, again })),
  {
    name: 'rollback to what is not on disk, git',
    scene: 'git-long',
    run: (world) => activate(world, '1.0.0'),
    again: [200],
  },
  ...AUTHORING_OPERATIONS,
  { name: 'start that packs, git', scene: 'git-loose', run: startAndPack, again: [0], starts: true },
  { name: 'first start, git', scene: 'git-empty', run: start, again: [0], starts: true },
  { name: 'stop', scene: 'plain', run: stop, again: [0], quiet: true },
];

async function activate(world: World, version: string): Promise<number> {
  return call('POST', '/svc/_apps/main/activate', { versionId: await idOf(world, version) })(world);
}

async function deleteVersion(world: World, version: string): Promise<number> {
  return call('DELETE', `/svc/_apps/main/versions/${encodeURIComponent(await idOf(world, version))}`)(world);
}

/** The id under which a version is stored; one that no version has when it is not. */
async function idOf({ gateway }: World, version: string): Promise<string> {
  const { json } = await gateway.call('GET', '/svc/_apps/main/versions');
  const versions = json as { versionId: string; version: string }[];
  return versions.find((one) => one.version === version)?.versionId ?? 'none';
}

async function rotateToken({ layout, plan }: World): Promise<number> {
  const args = [join(root, 'bin/svc.js'), 'token', 'rotate', '--data-dir', layout.dataDir];
  const child = spawn(process.execPath, args, { env: { ...process.env, ...plan.env }, stdio: 'ignore' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code === null) throw new Error('svc token rotate was ended.');
  return code;
}

async function start(world: World): Promise<number> {
  if (!world.alive) await world.start();
  return 0;
}

/** It is done in the background: by the next start, where jobs died so often that this one leaves it. */
async function startAndPack(world: World): Promise<number> {
  for (let starts = 0; starts < 3; starts++) {
    await start(world);
    for (const until = Date.now() + PACK_MS; isPacking(world) && Date.now() < until; await pause(POLL_MS)) {
      if (!world.alive) throw new Error('The gateway was ended.');
      // A connection that is idle for long is closed; one that was, by now, is opened anew.
      await world.gateway.call('GET', '/svc/_apps').catch(() => {});
    }
    if (!isPacking(world)) return 0;
    await stop(world);
  }
  throw new Error('It does not pack.');
}

async function stop(world: World): Promise<number> {
  const code = await world.gateway.stop();
  if (code === null) throw new Error('The gateway was ended.');
  return code;
}
