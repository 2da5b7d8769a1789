/** The first phase of a start: locks the data directory, brings it to this release's format, ends what a dead gateway left. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { checkFormat, moveFormat } from '../../storage/data-format.ts';
import { mkdirDurable } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import { AppLogs } from '../../storage/logs/app-log.ts';
import { Children, reapChildren } from '../../storage/processes/children.ts';
import { acquireDataLock } from '../../storage/processes/data-lock.ts';
import { tagOf } from '../../storage/processes/tagged.ts';
import { checkStore } from '../deployments/store/open-store.ts';
import { streamOf } from '../operations/log-stream.ts';
import { Tracing } from '../tracing/tracing.ts';
import { withRealPaths } from '../tree/entry-points.ts';
import type { TreeCallbacks } from '../tree/specifications.ts';
import type { Host } from './given-parts.ts';
import type { Phases } from './phases.ts';

type DataDirectoryOptions = { layout: Layout; log: Logger; version: string; host: Host };

export async function openDataDirectory(phases: Phases, { layout, log, version, host }: DataDirectoryOptions) {
  phases.begin('data directory');
  const lock = acquireDataLock(layout.lock);
  phases.ends(() => lock.release());
  const found = await checkFormat(layout);
  await checkStore(layout);
  streamOf(log)?.open();
  const tracing = host.simulation === undefined ? await Tracing.open(process.env, version, log) : null;
  phases.ends(() => tracing?.close());
  const tag = tagOf(layout.dataDir);
  const reaped = await reapChildren(layout.children, tag);
  if (reaped.length > 0)
    log.warn({ pids: reaped.map((child) => child.pid) }, 'Ended the processes of a gateway that died.');
  await moveFormat(layout, found, version, (error) =>
    log.warn({ err: error }, 'format.json could not be written: the disk is full.'),
  );
  const logs = new AppLogs({ layout });
  phases.ends(() => logs.flush());
  // Hosts and jobs are told which folders they may use, so these must be there.
  for (const dir of [...codeDirs(layout), layout.tmpDir, layout.templatesCache]) await mkdirDurable(dir);
  const onProcess = recordOf(new Children(layout.children, randomUUID()), log);
  return { tracing, tag, logs, onProcess };
}

/** Folders that handler hosts read: the apps, and their code in the git store. */
export function codeDirs({ appsDir, codeStore }: Layout): string[] {
  return codeStore === null ? [appsDir] : [appsDir, codeStore.mainDir];
}

/** Folders of the jobs: they write uploads, versions and repositories, and also read the fetched templates and the journal. */
export function jobFolders({ tmpDir, appsDir, codeStore, templatesCache, journalDir }: Layout) {
  const writable = [tmpDir, appsDir, ...(codeStore === null ? [] : [codeStore.dir])];
  return { readable: withRealPaths([templatesCache, journalDir]), writable: withRealPaths(writable) };
}

/** Keeps the record of processes on disk, by which the next gateway finds those that are left of this one. */
function recordOf(children: Children, log: Logger): TreeCallbacks['onProcess'] {
  return (pid, role, alive) => {
    try {
      if (alive) children.add(pid, role);
      else children.remove(pid);
    } catch (error) {
      // A full disk must not end a gateway that can still answer.
      log.warn({ err: error }, 'The record of processes could not be written.');
    }
  };
}
