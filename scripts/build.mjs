// Builds dist/: one bundle per process or thread, so that each starts by reading one file, and the type declarations.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import formats from 'ajv-formats';
import { build } from 'esbuild';
import { layOutTemplates } from './templates.mjs';

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

const own = (file) => JSON.parse(readFileSync(join(root, 'schemas', file), 'utf8'));
/** The schemas that are compiled here, with the options of these files: Ajv takes too long for every start. */
const SCHEMAS = {
  'automation-schema.ts': [
    own('automation.schema.json'),
    { allErrors: true, verbose: true, unicode: false, logger: false },
  ],
  'manifest-schema.ts': [own('app.schema.json'), { allErrors: true }],
  'meta-schema.ts': [{ $ref: 'https://json-schema.org/draft/2020-12/schema' }, {}],
};
const compiledSchema = {
  name: 'compiled-schema',
  setup(building) {
    building.onLoad({ filter: /rules[\\/](?:automation|manifest|meta)-schema\.ts$/ }, ({ path }) => {
      const [schema, options] = SCHEMAS[basename(path)];
      const ajv = new Ajv2020({ strict: false, ...options, code: { source: true, esm: true } });
      if (schema.$ref !== undefined) formats.default(ajv, { keywords: false });
      return { contents: standalone.default(ajv, ajv.compile(schema)), loader: 'js', resolveDir: root };
    });
  },
};

/** Finds the native part of msgpackr at once. */
const stringExtractor = {
  name: 'string-extractor',
  setup(building) {
    building.onResolve({ filter: /^msgpackr-extract$/ }, () => ({
      path: join(root, 'protocol/wire/string-extractor.ts'),
    }));
  },
};

/** Leaves out the other commands, each of which would make files of what it shares with the gateway. */
const serveAlone = {
  name: 'serve-alone',
  setup(building) {
    let hasServe = false;
    building.onResolve({ filter: /^\.\/commands\// }, ({ path, kind }) => {
      const isServe = path === './commands/operations/serve-command.ts';
      hasServe ||= isServe;
      return kind === 'dynamic-import' && !isServe ? { path: './cli.js', external: true } : undefined;
    });
    // Without it `svc serve` would load the other build, and run the command line a second time.
    building.onEnd(() => (hasServe ? undefined : { errors: [{ text: 'The build of the gateway lacks "serve".' }] }));
  },
};

/** The exporter of traces is a file of its own, with the packages that it is made of. */
const exporter = {
  name: 'otlp-exporter',
  setup(building) {
    building.onResolve({ filter: /\/otlp-exporter\.ts$/ }, ({ kind }) =>
      kind === 'entry-point' ? undefined : { path: './otlp-exporter.js', external: true },
    );
  },
};

/** For packages in a bundle that are CommonJS. */
const REQUIRE =
  "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);";

/**
 * Packages that are loaded at every start, by every job, or while a call of an MCP server waits: as part of our bundles they take
 * half as long. The others stay packages: what is loaded when it is needed, what has files of its own, and pino, whose loggers
 * hosts pass in.
 */
export const INSIDE =
  /^(?:@csstools\/css-tokenizer|@modelcontextprotocol\/client|acorn|acorn-walk|ajv|ajv-formats|croner|diff|eslint-scope|isomorphic-git|lru-cache|msgpackr|parse5|tar|uuid|yauzl)(?:\/|$)/;
const packages = {
  name: 'packages',
  setup(building) {
    // For Node its main file is CommonJS, of which a dynamic import of a bundle has no names.
    building.onResolve({ filter: /^isomorphic-git$/ }, () => ({
      path: join(root, 'node_modules/isomorphic-git/index.js'),
    }));
    building.onResolve({ filter: /^[^./]/ }, ({ path, kind, importer }) => {
      const isInside = kind === 'entry-point' || INSIDE.test(path) || importer.includes('/node_modules/');
      return isInside ? undefined : { path, external: true };
    });
  },
};

const browser = { absWorkingDir: root, bundle: true, target: 'es2022', charset: 'utf8', logLevel: 'warning' };

/** The console, split so that a view is read when it is opened, and the scripts of other pages. */
async function buildConsole(outdir) {
  mkdirSync(outdir, { recursive: true });
  cpSync(join(root, 'console/index.html'), join(outdir, 'index.html'));
  cpSync(join(root, 'console/enter.html'), join(outdir, 'enter.html'));
  cpSync(join(root, 'console/dev.js'), join(outdir, 'dev.js'));
  cpSync(join(root, 'console/previews'), join(outdir, '_console'), { recursive: true });
  await Promise.all([
    build({
      ...browser,
      entryPoints: { console: 'console/main.tsx' },
      outdir,
      format: 'esm',
      splitting: true,
      // The console's script is `/svc/_console.js`, its parts are below `/svc/_console/`.
      chunkNames: '_console/part-[hash]',
      jsx: 'automatic',
      jsxImportSource: 'preact',
      minify: true,
      legalComments: 'eof',
    }),
    build({ ...browser, entryPoints: { console: 'console/styles/console.css' }, outdir, minify: true }),
    // Each is one script, because it is to be there before everything else in a page.
    build({
      ...browser,
      entryPoints: ['console/client.js', 'console/enter.ts', 'console/view.js'],
      outdir,
      format: 'iife',
      minify: true,
    }),
    build({ ...browser, entryPoints: { push: 'console/push-worker.ts' }, outdir, format: 'iife' }),
  ]);
  for (const entry of readdirSync(outdir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
    writeFileSync(`${path}.br`, brotliCompressSync(bytes));
  }
}

/** Builds everything that runs into `outdir`, with further plugins of esbuild. */
export async function buildAll(outdir = dist, further = []) {
  const plugins = [compiledSchema, stringExtractor, exporter, ...further];
  rmSync(outdir, { recursive: true, force: true });
  const split = { ...common, outdir, splitting: true, banner: { js: REQUIRE } };
  // A start reads all files that it shares with another entry: what starts often is built with few others.
  await Promise.all([
    build({
      ...split,
      entryPoints: {
        agents: 'workers/agents/main.ts',
        cli: 'cli/main.ts',
        test: 'cli/app-tests/harness.ts',
        'test-hooks': 'cli/app-tests/hooks.ts',
        'test-register': 'cli/app-tests/register.ts',
        'test-reporter': 'cli/app-tests/reporter.ts',
        window: 'cli/desktop/main.ts',
      },
      plugins: [...plugins, packages],
    }),
    build({
      ...split,
      entryPoints: { index: 'supervisor/index.ts', serve: 'cli/main.ts' },
      plugins: [serveAlone, ...plugins, packages],
    }),
    build({
      ...split,
      entryPoints: { job: 'workers/jobs/job-thread.ts', jobs: 'workers/jobs/main.ts' },
      plugins: [...plugins, packages],
    }),
    // Everything but the native module is in the file: a thread or process that starts reads one file and no packages.
    build({
      ...common,
      entryPoints: {
        writer: 'workers/writer/main.ts',
        'writer-thread': 'workers/writer/writer-thread.ts',
        host: 'workers/handler/host.ts',
        actor: 'workers/handler/actor.ts',
        sql: 'workers/sql/main.ts',
        'sql-thread': 'workers/sql/sql-thread.ts',
      },
      outdir,
      plugins,
      banner: { js: REQUIRE },
    }),
    build({
      ...common,
      entryPoints: { 'otlp-exporter': 'supervisor/tracing/otlp-exporter.ts' },
      outdir,
      plugins,
      // Of which parts that are not used can be left out.
      mainFields: ['module', 'main'],
      legalComments: 'eof',
    }),
  ]);
  cpSync(join(root, 'supervisor/agents/runners/grounding'), join(outdir, 'grounding'), { recursive: true });
  layOutTemplates(root, join(outdir, 'templates'));
  await buildConsole(join(outdir, 'console'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildAll();
if (process.argv.includes('--types')) {
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.types.json'], {
    cwd: root,
    stdio: 'inherit',
  });
}
