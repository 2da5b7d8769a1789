/** A supervision tree without a gateway, for tests of the processes below it. */
import { join } from 'node:path';
import { damagedData } from '../storage/apps/app-data.ts';
import { resolveConfig } from '../supervisor/config.ts';
import type { TreeCallbacks, TreeOptions } from '../supervisor/tree/specifications.ts';
import { Tree } from '../supervisor/tree/tree.ts';

/** Ignores what the processes report. */
export const NO_CALLBACKS: TreeCallbacks = {
  secrets: () => null,
  keepBlob: async () => ({ ok: false, value: null }),
  notice: async () => ({ ok: true, body: Buffer.from('{"channels":0}') }),
  appLog: () => {},
  onDamaged: async (app, damage) => damagedData(app, damage),
  onStarted: () => {},
  onGaveUp: () => {},
  onCommitted: () => {},
  onWriterLost: () => {},
  onReplaced: () => {},
  unsettled: () => null,
  onProcess: () => {},
  onFatal: () => {},
};

/** In `folder`, with one host and one thread at a time. */
export function treeIn(
  folder: string,
  { callbacks, ...options }: Partial<Omit<TreeOptions, 'callbacks'>> & { callbacks?: Partial<TreeCallbacks> },
): Tree {
  return new Tree({
    config: { ...resolveConfig(folder), handlerHosts: 1, maxLiveActors: 1, actorMemoryMb: 64 },
    paths: () => ({
      codeDir: folder,
      preparedDir: folder,
      dataFile: join(folder, 'data.sqlite'),
      blobs: { own: folder, live: null },
    }),
    pageLog: null,
    codeDirs: [folder],
    socketFolder: folder,
    gatewayPort: () => null,
    log: () => {},
    ...options,
    callbacks: { ...NO_CALLBACKS, ...callbacks },
  });
}
