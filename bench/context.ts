/** What every scenario is given. */
import type { Config } from '../supervisor/config.ts';
import { Daemon, type DaemonOptions } from './daemon.ts';
import type { Generators } from './load/generators.ts';
import type { Finding, LoadMeasurement } from './measurements.ts';
import type { Options } from './options.ts';

export type Context = {
  options: Options;
  config: Partial<Config>;
  generators: Generators;
  /** A new empty folder, removed at the end of the run. */
  newFolder(): string;
  /** Where CPU profiles go; undefined when none are wanted. */
  profileDir: string | undefined;
  progress(text: string): void;
};

/** The folders of two built checkouts, by the names that reports give them. */
export type Builds = Record<'A' | 'B', string>;

export type Scenario = {
  name: string;
  /** One sentence. */
  question: string;
  run(context: Context): Promise<(LoadMeasurement | Finding)[]>;
  /** What `bench ab` does: measures two builds in turns. Without it a scenario cannot compare builds. */
  ab?(context: Context, builds: Builds): Promise<LoadMeasurement[]>;
};

/** What a full run and a smoke run do differently. */
export function sized<T>({ options }: Context, { full, smoke }: { full: T; smoke: T }): T {
  return options.smoke ? smoke : full;
}

/** Starts a daemon as the command line says, in a folder of its own unless another is named; stops it after `work`. */
export async function withDaemon<T>(
  { newFolder, config, profileDir }: Context,
  work: (daemon: Daemon) => Promise<T>,
  { config: more, ...options }: Partial<DaemonOptions> = {},
): Promise<T> {
  const dataDir = options.dataDir ?? newFolder();
  const daemon = await Daemon.start({ profileDir, ...options, dataDir, config: { ...config, ...more } });
  try {
    return await work(daemon);
  } finally {
    await daemon.stop();
  }
}
