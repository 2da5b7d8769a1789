/** What every scenario is given. */
import type { Config } from '../supervisor/config.ts';
import type { Generators } from './load/generators.ts';
import type { Measurement } from './measurements.ts';
import type { Options } from './options.ts';
import type { Workload } from './workload.ts';

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

export type Scenario = {
  name: string;
  /** One sentence. */
  question: string;
  run(context: Context): Promise<Measurement[]>;
  /** What two builds can be compared under. */
  workload?(smoke: boolean): Promise<Workload>;
};
