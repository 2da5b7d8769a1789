/** Tells how many apps may be live at a time in the memory that the configuration gives them. Pure. */
import { LIMITS } from '../../protocol/limits.ts';
import type { Config } from '../config.ts';

const MiB = 1024 ** 2;

type Places = { threads: number; quiet: number };

/** `threads`: apps with a thread of their own; `quiet`: apps in the commons of all hosts. A quarter of the memory is for these. */
export function placesIn({
  appMemoryMb,
  maxLiveActors,
  handlerHosts,
}: Pick<Config, 'appMemoryMb' | 'maxLiveActors' | 'handlerHosts'>): Places {
  const { liveAppBytes, minLivePlaces, maxLivePlaces, quietAppBytes, minQuietPlaces, commonsPlaces } = LIMITS;
  const bytes = appMemoryMb * MiB;
  return {
    threads: maxLiveActors ?? within(minLivePlaces, (bytes * 0.75) / liveAppBytes, maxLivePlaces),
    quiet: within(minQuietPlaces, (bytes * 0.25) / quietAppBytes, commonsPlaces * handlerHosts),
  };
}

/** The open files that one process needs where all these apps are live on it, rounded up to what an operator would set. */
export function filesFor({ threads, quiet }: Places): number {
  const { processFiles, threadFiles, databaseFiles, commonsDatabases } = LIMITS;
  const files = processFiles + threads * threadFiles + Math.min(quiet, commonsDatabases) * databaseFiles;
  return Math.ceil(files / 1024) * 1024;
}

function within(least: number, places: number, most: number): number {
  return Math.min(most, Math.max(least, Math.floor(places)));
}
