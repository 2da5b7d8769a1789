/** The second phase of a start: the tree of processes, the databases that they open, and what follows their commits. */
import type { Logger } from 'pino';
import { isOwnDatabase } from '../../protocol/ids.ts';
import { readCurrent, readVersion } from '../../storage/apps/versions.ts';
import { blobFolders } from '../../storage/blob-files.ts';
import type { Layout } from '../../storage/layout.ts';
import { makeSocketFolder } from '../../storage/processes/socket-folder.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { ReadGate } from '../cluster/read-gate.ts';
import type { Config } from '../config.ts';
import { Databases } from '../databases.ts';
import { ChangeStreams } from '../dispatch/change-streams.ts';
import { descriptorLimit } from '../edge/descriptors.ts';
import { Commits } from '../results/commits.ts';
import { Results } from '../results/results.ts';
import { filesFor, placesIn } from '../tree/places.ts';
import type { TreeCallbacks } from '../tree/specifications.ts';
import { Tree } from '../tree/tree.ts';
import { codeDirs } from './data-directory.ts';
import type { Host } from './given-parts.ts';
import type { Phases } from './phases.ts';

/** What is answered by parts that are made later. */
type LaterCallbacks = Omit<TreeCallbacks, 'onCommitted' | 'onWriterLost' | 'onReplaced' | 'unsettled' | 'onFatal'>;
type ProcessesOptions = LaterCallbacks & {
  config: Config;
  layout: Layout;
  log: Logger;
  host: Host;
  cluster: ClusterNode | null;
};

/** Apps whose versions are looked at before the gateway is ready. */
const LOOKED_AT = 16;

/** `treeReady` resolves when the writer is ready; it rejects when that does not come up. */
export function startProcesses(phases: Phases, { config, layout, log, host, cluster, ...callbacks }: ProcessesOptions) {
  phases.begin('processes');
  const [files, needed] = [descriptorLimit(), filesFor(placesIn(config))];
  if (files < needed)
    log.warn(
      `A process may open ${files} files here, and as many apps as may be live at a time need ${needed}. Raise the limit ` +
        `(ulimit -n ${needed}, in a service LimitNOFILE=${needed}), or set a smaller "appMemoryMb" or "maxLiveActors" in the configuration.`,
    );
  const changes = new ChangeStreams();
  phases.ends(() => changes.closeAll());
  const commits = new Commits({
    file: (app) => layout.app(app).data,
    onChanged: (app) => results.forget(app),
    onForgotten: (app) => gate?.forget(app),
  });
  phases.ends(() => commits.close());
  const results: Results = new Results(commits);
  const onWriterLost = (app: string) => {
    commits.changed(app);
    changes.reset(app);
  };
  const fileOf = (app: string) => layout.app(app).data;
  const gate = cluster && new ReadGate({ file: fileOf, open: (app) => databases.confirmation(app) });
  phases.ends(() => gate?.close());
  const unsettled = (app: string, piece?: number) => gate?.settled(app, piece) ?? null;
  const onCommitted: TreeCallbacks['onCommitted'] = (app, before, after, tables) => {
    gate?.committed(app, after);
    commits.committed(app, before, after, tables);
  };
  const onReplaced = (app: string) => {
    // The gateway's own are read through the writer.
    if (isOwnDatabase(app)) return;
    gate?.forget(app);
    tree.reopen(app);
    onWriterLost(app);
  };
  const tree: Tree = new Tree({
    config,
    pageLog: cluster?.pageLog ?? null,
    paths: (app, versionId) => {
      const paths = layout.app(app);
      const { code, prepared } = paths.version(versionId);
      return { codeDir: code, preparedDir: prepared, dataFile: paths.data, blobs: blobFolders(layout, app) };
    },
    codeDirs: codeDirs(layout),
    socketFolder: makeSocketFolder(layout.sockets),
    gatewayPort: () => portOf(config, host.listening),
    simulation: host.simulation,
    log: (level, message, app) => log[level](app === undefined ? {} : { app }, message),
    callbacks: {
      ...callbacks,
      onWriterLost,
      onCommitted,
      onReplaced,
      unsettled,
      onFatal: host.onFatal,
    },
  });
  phases.ends((drainMs) => tree.stop(drainMs));
  const databases: Databases = new Databases(tree, layout, callbacks.onDamaged, cluster?.names ?? null);
  const treeReady = tree.start();
  // Observed here too, so that a failure below does not leave it unhandled.
  treeReady.catch(() => {});
  return { changes, commits, results, tree, treeReady, databases, unsettled };
}

/**
 * Has the commons started beside the rest, where one of the first apps can be in them: the first read would wait for that. What is wrong
 * with files of an app is found when they are needed. Never rejects.
 */
export async function prepareCommons(apps: readonly string[], layout: Layout, tree: Tree): Promise<void> {
  for (const id of apps.slice(0, LOOKED_AT)) {
    const app = layout.app(id);
    const current = await readCurrent(app).catch(() => null);
    if (current === null || current === 'damaged') continue;
    const version = await readVersion(app, current.activeVersion).catch(() => null);
    if (version?.commons === true) tree.prepareCommons(id);
  }
}

/** Where the gateway listens; null while nobody knows. */
export function portOf(config: Config, listening: Host['listening']): number | null {
  const url = listening()?.url;
  if (url === undefined) return config.port || null;
  const { port, protocol } = new URL(url);
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}
