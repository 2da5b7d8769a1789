/** Builds the module of the job threads for tests: a thread does not load TypeScript. */
import { join } from 'node:path';
import { build } from 'esbuild';

/** One module for Node with all its imports. */
export const BUNDLE = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
} as const;

/** The built file, with everything that it needs. */
export async function buildJobModule(dir: string): Promise<string> {
  const outfile = join(dir, 'job.mjs');
  await build({ ...BUNDLE, entryPoints: [join(import.meta.dirname, '../workers/jobs/job-thread.ts')], outfile });
  return outfile;
}
