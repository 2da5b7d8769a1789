/** Builds the module of the job threads for tests: a thread does not load TypeScript. */
import { join } from 'node:path';
import { build } from 'esbuild';

/** The built file, which holds all it needs. */
export async function buildJobModule(dir: string): Promise<string> {
  const outfile = join(dir, 'job.mjs');
  await build({
    entryPoints: [join(import.meta.dirname, '../workers/jobs/thread.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile,
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  });
  return outfile;
}
