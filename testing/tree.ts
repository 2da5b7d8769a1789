/** A supervision tree without a gateway, for tests of the processes below it. */
import { join } from 'node:path';
import { damagedData } from '../storage/apps/app-data.ts';
import type { TreeOptions } from '../supervisor/tree/specifications.ts';
import { Tree } from '../supervisor/tree/tree.ts';

/** In `folder`, with small limits; ignores what its processes report, unless `options` say otherwise. */
export function treeIn(folder: string, options: Partial<TreeOptions>): Tree {
  return new Tree({
    paths: () => ({
      codeDir: folder,
      preparedDir: folder,
      dataFile: join(folder, 'data.sqlite'),
      blobs: { own: folder, live: null },
    }),
    codeDirs: [folder],
    socketFolder: folder,
    handlerHosts: 1,
    maxLiveActors: 1,
    actorMemoryMb: 64,
    actorIdleMs: 60_000,
    mailboxLimit: 10,
    maxResultBytes: 1000,
    durability: 'normal',
    egress: { allow: [], deny: [] },
    gatewayPort: () => null,
    log: () => {},
    appLog: () => {},
    onCommitted: () => {},
    onWriterLost: () => {},
    onDamaged: async (app, damage) => damagedData(app, damage),
    notice: async () => ({ ok: true, body: Buffer.from('{"channels":0}') }),
    onGaveUp: () => {},
    onStarted: () => {},
    secrets: () => null,
    keepBlob: async () => ({ ok: false, value: null }),
    onFatal: () => {},
    onProcess: () => {},
    ...options,
  });
}
