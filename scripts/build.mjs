// Builds dist/: one bundle per process or thread, so that each starts by reading one file, and the type declarations.
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  sourcemap: 'linked',
  // Stacks need positions only; the sources are two thirds of a map.
  sourcesContent: false,
  logLevel: 'warning',
};

/** Compiles the schema of automations: Ajv takes too long to load and compile for every start. */
const compiledSchema = {
  name: 'compiled-schema',
  setup(building) {
    building.onLoad({ filter: /rules[\\/]automation-schema\.ts$/ }, () => {
      const schema = JSON.parse(readFileSync(join(root, 'schemas/automation.schema.json'), 'utf8'));
      // The options of that file.
      const options = { allErrors: true, verbose: true, strict: false, unicode: false, logger: false };
      const ajv = new Ajv2020({ ...options, code: { source: true, esm: true } });
      return { contents: standalone.default(ajv, ajv.compile(schema)), loader: 'js' };
    });
  },
};

/** Builds everything that runs into `outdir`, with further plugins of esbuild. */
export async function buildAll(outdir = dist, further = []) {
  const plugins = [compiledSchema, ...further];
  rmSync(outdir, { recursive: true, force: true });
  await Promise.all([
    build({
      ...common,
      entryPoints: {
        agents: 'workers/agents/main.ts',
        cli: 'cli/main.ts',
        index: 'supervisor/index.ts',
        job: 'workers/jobs/thread.ts',
        jobs: 'workers/jobs/main.ts',
        test: 'cli/app-tests/harness.ts',
        'test-hooks': 'cli/app-tests/hooks.ts',
        'test-register': 'cli/app-tests/register.ts',
        'test-reporter': 'cli/app-tests/reporter.ts',
      },
      outdir,
      plugins,
      packages: 'external',
      splitting: true,
    }),
    // Everything but the native module is in the file: a thread or process that starts reads one file and no packages.
    build({
      ...common,
      entryPoints: {
        writer: 'workers/writer/main.ts',
        'writer-thread': 'workers/writer/thread.ts',
        host: 'workers/handler/host.ts',
        actor: 'workers/handler/actor.ts',
        mcp: 'workers/mcp/main.ts',
      },
      outdir,
      plugins,
      external: ['better-sqlite3', 'msgpackr-extract'],
      banner: {
        js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
      },
    }),
  ]);
  cpSync(join(root, 'supervisor/agents/runners/grounding'), join(outdir, 'grounding'), { recursive: true });
  const isSource = (path) => path !== join(root, 'console/bridge');
  cpSync(join(root, 'console'), join(outdir, 'console'), { recursive: true, filter: isSource });
  // One script, because it is to be there before everything else in a page.
  await build({
    absWorkingDir: root,
    entryPoints: ['console/client.js'],
    outfile: join(outdir, 'console/client.js'),
    bundle: true,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    logLevel: 'warning',
  });
  // The one file of the console that packages are part of.
  await build({
    absWorkingDir: root,
    entryPoints: ['console/markdown.js'],
    outfile: join(outdir, 'console/markdown.js'),
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    legalComments: 'eof',
    logLevel: 'warning',
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildAll();
if (process.argv.includes('--types')) {
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.types.json'], {
    cwd: root,
    stdio: 'inherit',
  });
}
