/** Tells how many apps may be live at a time in the memory that the configuration gives them. Pure. */
import { LIMITS } from '../../protocol/limits.ts';
import type { Config } from '../config.ts';

const MiB = 1024 ** 2;
/** Of the memory; the rest is for apps in the commons. */
const THREADS_SHARE = 0.75;

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
    threads: maxLiveActors ?? within(minLivePlaces, (bytes * THREADS_SHARE) / liveAppBytes, maxLivePlaces),
    quiet: within(minQuietPlaces, (bytes * (1 - THREADS_SHARE)) / quietAppBytes, commonsPlaces * handlerHosts),
  };
}

/** The open files that one process needs where all these apps are live on it, rounded up to what an operator would set. */
export function filesFor({ threads, quiet }: Places): number {
  const { processFiles, threadFiles, databaseFiles, commonsDatabases } = LIMITS;
  const files = processFiles + threads * threadFiles + Math.min(quiet, commonsDatabases) * databaseFiles;
  return Math.ceil(files / 1024) * 1024;
}

/** With so many threads in a host, its share of the memory has no room for a spare one. */
export function threadsBeforeShort({
  appMemoryMb,
  handlerHosts,
}: Pick<Config, 'appMemoryMb' | 'handlerHosts'>): number {
  return Math.floor((appMemoryMb * MiB * THREADS_SHARE) / LIMITS.liveAppBytes / handlerHosts);
}

function within(least: number, places: number, most: number): number {
  return Math.min(most, Math.max(least, Math.floor(places)));
}
