// Builds the test files into one folder, once for a run, so that no process of a test transpiles anything. What tests share is in
// common files, and each file keeps the address of its source.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** `import.meta` of a built file would name the built file. */
const sourceAddress = {
  name: 'source-address',
  setup(building) {
    building.onLoad({ filter: /\.m?[jt]s$/ }, ({ path }) => {
      if (path.includes('/node_modules/')) return undefined;
      const text = readFileSync(path, 'utf8');
      if (!text.includes('import.meta')) return undefined;
      const own = `const SOURCE_URL = ${JSON.stringify(pathToFileURL(path).href)}, SOURCE_FOLDER = ${JSON.stringify(dirname(path))};`;
      return { contents: own + text, loader: path.endsWith('ts') ? 'ts' : 'js', resolveDir: dirname(path) };
    });
  },
};

/**
 * Builds `sources`, paths of test files from `root`, into `folder`, which is below it. Each as its source, its built path and whether
 * it can start gateways, or any process: all others test parts by themselves.
 */
export async function buildTests(root, sources, folder) {
  const nameOf = (source) => source.replaceAll('..', 'outside').replace(/\.ts$/, '');
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: sources.map((source) => ({ in: join(root, source), out: nameOf(source) })),
    outdir: folder,
    bundle: true,
    splitting: true,
    chunkNames: 'shared/[hash]',
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    logLevel: 'warning',
    define: { 'import.meta.url': 'SOURCE_URL', 'import.meta.dirname': 'SOURCE_FOLDER' },
    plugins: [sourceAddress],
  });
  return sources.map((source) => ({
    source,
    built: join(folder, `${nameOf(source)}.js`),
    startsServers: ['testing/gateway.ts', 'testing/postgres.ts'].some((one) => isMadeOf(metafile.inputs, source, one)),
    startsProcesses: isMadeOf(metafile.inputs, source, 'node:child_process'),
  }));
}

/** Whether a file imports the other one, or the module, by itself or through others. */
function isMadeOf(inputs, file, other) {
  const seen = new Set();
  const open = [file];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === other) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    for (const { path } of inputs[next]?.imports ?? []) open.push(path);
  }
  return false;
}
