// Builds dist/: one bundle per process or thread, so that each starts by reading one file, and the type declarations.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
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
      return kind === 'dynamic-import' && !isServe ? { path: './cli.cjs', external: true } : undefined;
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
 * half as long. The others stay packages: what is loaded when it is needed, what has files of its own, and where hosts pass loggers
 * in, pino.
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
      const isInside =
        kind === 'entry-point' ||
        INSIDE.test(path) ||
        importer.includes('/node_modules/') ||
        (building.initialOptions.format === 'cjs' && path === 'pino');
      return isInside ? undefined : { path, external: true };
    });
  },
};

/**
 * CommonJS for `storage/processes/cached-code.ts`: the value of the script is a function, whose text is ASCII, which V8 reads at
 * once. It is as strict as the modules that it is made of.
 */
const code = {
  ...common,
  format: 'cjs',
  write: false,
  define: { 'import.meta.url': '__entry' },
  banner: {
    js: '(function (exports, require, module, __filename, __dirname, __import) { "use strict"; const __entry = require("node:url").pathToFileURL(__filename).href;',
  },
  footer: { js: '})' },
};

/**
 * What is outside is imported by a function of `cached-code.ts`: in code from a cache, Node 20 does not know what to do with an `import()`.
 * The part that stands for a module is `then`-able, and so becomes the module.
 */
const importing = {
  name: 'importing',
  setup(building) {
    building.onResolve({ filter: /./ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      if (kind !== 'dynamic-import' || pluginData === importing) return undefined;
      const found = await building.resolve(path, { kind, importer, resolveDir, pluginData: importing });
      return found.external ? { path: found.path, namespace: 'imported' } : found;
    });
    building.onLoad({ filter: /./, namespace: 'imported' }, ({ path }) => ({
      contents: `export const then = (resolve, reject) => __import(${JSON.stringify(path)}).then(resolve, reject);`,
    }));
  },
};

/** One `<name>.cjs` for each entry, which runs the `<name>.code.js` beside it. */
async function buildProcesses(outdir, entryPoints, plugins) {
  const { outputFiles } = await build({ ...code, outdir, entryPoints, plugins: [importing, ...plugins] });
  mkdirSync(outdir, { recursive: true });
  for (const { path, text } of outputFiles) {
    const to = path.replace(/\.js(\.map)?$/, '.code.js$1');
    const name = basename(path, '.js');
    if (path.endsWith('.map')) {
      writeFileSync(to, text);
      continue;
    }
    const ascii = text
      .replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .replace(`sourceMappingURL=${name}.js.map`, `sourceMappingURL=${name}.code.js.map`);
    const id = createHash('sha256').update(ascii).digest('hex').slice(0, 16);
    writeFileSync(to, ascii);
    writeFileSync(
      join(outdir, `${name}.cjs`),
      `module.exports = require('./cached-code.cjs').runCached(__filename, '${id}');\n`,
    );
  }
}

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

const STAND_INS = join(root, 'workers/commons/stand-ins.ts');
const IN_REALMS = ['buffer', 'crypto', 'fs', 'path', 'process', 'util'];

/** Puts the limits as numbers where they are used: each realm would take a good part of its start to make the object of all of them. */
const limitsAsNumbers = {
  name: 'limits-as-numbers',
  async setup(building) {
    const entryPoints = [join(root, 'protocol/limits.ts')];
    const { outputFiles } = await build({ ...common, entryPoints, sourcemap: false, write: false });
    const { LIMITS } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
    building.onResolve({ filter: /\/limits\.ts$/ }, () => ({ path: entryPoints[0], sideEffects: false }));
    building.onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(/\bLIMITS\.(\w+)/g, (_, name) => JSON.stringify(LIMITS[name])),
      loader: 'ts',
    }));
  },
};

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
        test: 'cli/app-tests/harness.ts',
        'test-hooks': 'cli/app-tests/hooks.ts',
        'test-register': 'cli/app-tests/register.ts',
        'test-reporter': 'cli/app-tests/reporter.ts',
        window: 'cli/desktop/main.ts',
      },
      plugins: [...plugins, packages],
    }),
    build({ ...split, entryPoints: { index: 'supervisor/index.ts' }, plugins: [...plugins, packages] }),
    buildProcesses(
      outdir,
      {
        cli: 'cli/main.ts',
        job: 'workers/jobs/job-thread.ts',
        jobs: 'workers/jobs/main.ts',
      },
      [...plugins, packages],
    ),
    buildProcesses(outdir, { serve: 'cli/main.ts' }, [serveAlone, ...plugins, packages]),
    // Everything but the native module is in the file: a thread or process that starts reads no packages.
    buildProcesses(
      outdir,
      {
        writer: 'workers/writer/main.ts',
        'writer-thread': 'workers/writer/writer-thread.ts',
        host: 'workers/handler/host.ts',
        actor: 'workers/handler/actor.ts',
        commons: 'workers/commons/commons.ts',
        sql: 'workers/sql/main.ts',
        'sql-thread': 'workers/sql/sql-thread.ts',
      },
      plugins,
    ),
    build({
      ...common,
      entryPoints: { 'cached-code': 'storage/processes/cached-code.ts' },
      format: 'cjs',
      outdir,
      outExtension: { '.js': '.cjs' },
    }),
    // Evaluated in each context of the commons.
    build({
      ...common,
      entryPoints: { resident: 'workers/commons/resident.ts' },
      outdir,
      format: 'cjs',
      outExtension: { '.js': '.cjs' },
      sourcemap: false,
      minifyWhitespace: true,
      // Node shows the line where an app ran out of stack on the standard error of the host.
      lineLimit: 200,
      inject: [STAND_INS],
      alias: Object.fromEntries(IN_REALMS.map((name) => [`node:${name}`, STAND_INS])),
      plugins: [...plugins, limitsAsNumbers],
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
