/**
 * Bundles the page of an app from the entry that its `app.json` names: TypeScript, JSX and packages become `app.js`, the styles that
 * are imported `app.css`, each with its source map (specification, "Pages with a build"). The bundler is WebAssembly and gets
 * the app's files from here, so it reaches no other file and no network.
 */
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { BuildFailure, BuildOptions, BuildResult, Loader, Message, Plugin } from 'esbuild';
import { type InputIssue, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest } from '../../../protocol/manifest.ts';
import { manifestIssue } from '../../../protocol/rules/manifest-check.ts';
import { PAGE_OPTIONS, PAGE_SCRIPT, PAGE_SETTINGS } from '../../../protocol/rules/page-build.ts';
import { invalidSources } from '../../../protocol/rules/source-findings.ts';
import { staticType } from '../../../protocol/rules/static-files.ts';
import { timeLimitedWork } from '../control.ts';
import type { ExtractedFile } from './extracted.ts';
import { PageImports } from './page-imports.ts';

/** Path → what is served there; `warnings` are in the app's own files. */
export type BuiltPage = { files: ReadonlyMap<string, Buffer>; warnings: InputIssue[] };

/** Of an app whose page is served as it is. */
const NOT_BUILT: BuiltPage = { files: new Map(), warnings: [] };

const LOADERS: Record<string, Loader> = {
  '.ts': 'ts',
  '.tsx': 'tsx',
  '.jsx': 'jsx',
  '.js': 'js',
  '.mjs': 'js',
  '.css': 'css',
  '.json': 'json',
  '.txt': 'text',
  '.md': 'text',
};
/** Parts that an error about a page that is too large names. */
const NAMED = 3;
const MiB = 1024 * 1024;

type Built = BuildResult<{ write: false; metafile: true }>;
type Kept = { paths: string; hashes: Map<string, string>; built: BuiltPage };

/** What this thread built last, newest last: most edits of a draft are to something else. */
const kept: Kept[] = [];
const KEPT = 2;

/**
 * Builds the page of the app whose files are in `code`. Throws `INVALID_PAGE` with all findings, and `INVALID_MANIFEST` for an entry that
 * is not there.
 */
export async function buildPage(code: string, files: ExtractedFile[], { page }: Manifest): Promise<BuiltPage> {
  if (page?.entry === undefined) return NOT_BUILT;
  const { entry } = page;
  const hashes = new Map(files.map(({ path, sha256 }) => [path, sha256]));
  if (!hashes.has(entry)) throw manifestIssue('page.entry', `is "${entry}", and the app has no such file`, 'file');
  // Where an import leads depends on the names of all files.
  const paths = JSON.stringify([entry, ...hashes.keys()]);
  const known = kept.find((one) => one.paths === paths && isSame(one.hashes, hashes));
  if (known !== undefined) return known.built;
  const { result, inputs } = await timeLimitedWork(LIMITS.pageBuildMs, tooSlow(entry), () =>
    bundle(code, [...hashes.keys()], entry),
  );
  const built = outputOf(result, entry);
  refuseTaken(hashes, built, inputs);
  kept.push({ paths, hashes: new Map(inputs.map((path) => [path, hashes.get(path) as string])), built });
  if (kept.length > KEPT) kept.shift();
  return built;
}

function isSame(inputs: Map<string, string>, now: Map<string, string>): boolean {
  return [...inputs].every(([path, hash]) => now.get(path) === hash);
}

/** `inputs` are the files that it is made of, in the app. */
async function bundle(code: string, paths: string[], entry: string): Promise<{ result: Built; inputs: string[] }> {
  const reading = new AppFiles(code, paths, entry);
  const options = {
    ...PAGE_OPTIONS,
    entryPoints: [{ in: entry, out: PAGE_SCRIPT.slice(0, -extname(PAGE_SCRIPT).length) }],
    outdir: '/',
    minify: true,
    sourcemap: 'linked',
    // In TypeScript it takes such a name for a type.
    logOverride: { 'import-is-undefined': 'error' },
    ...(paths.includes(PAGE_SETTINGS) ? { tsconfigRaw: reading.text(PAGE_SETTINGS) } : {}),
    plugins: [reading.plugin],
  } satisfies BuildOptions;
  const { forgetBundler, loadBundler } = await import('./bundler.ts');
  const bundler = await loadBundler();
  try {
    return { result: (await bundler.build(options)) as Built, inputs: reading.inputs };
  } catch (error) {
    const { errors } = error as Partial<BuildFailure>;
    if (errors === undefined || errors.length === 0) {
      forgetBundler();
      throw error;
    }
    throw invalidPage(errors.map((one) => findingOf(one, entry)));
  }
}

/** Gives the bundler the files of the app, under absolute names of their paths. */
class AppFiles {
  readonly #code: string;
  readonly #entry: string;
  readonly #imports: PageImports;
  readonly #read = new Set<string>();
  #bytes = 0;

  constructor(code: string, paths: string[], entry: string) {
    this.#code = code;
    this.#entry = entry;
    this.#imports = new PageImports(paths);
  }

  get inputs(): string[] {
    return [...this.#read];
  }

  text(path: string): string {
    this.#read.add(path);
    return readFileSync(join(this.#code, path), 'utf8');
  }

  readonly plugin: Plugin = {
    name: 'app',
    setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /.*/ }, ({ kind, path, importer }) => {
        if (kind === 'entry-point') return { path: `/${this.#entry}` };
        const found = this.#imports.find(path, importer.slice(1), kind);
        if ('refused' in found) return { errors: [{ text: found.refused }] };
        if ('external' in found) return { path: found.external, external: true };
        return { path: `/${found.file}` };
      });
      onLoad({ filter: /.*/ }, ({ path }) => this.#load(path.slice(1)));
    },
  };

  #load(path: string): { contents: string; loader: Loader } | { errors: { text: string }[] } {
    const loader = LOADERS[extname(path).toLowerCase()];
    if (loader === undefined && staticType(path) === undefined)
      return { errors: [{ text: `The page imports ${path}, which is no module, and is never served` }] };
    if (loader === undefined) {
      this.#read.add(path);
      return {
        contents: `export default new URL(${JSON.stringify(`./${path}`)}, import.meta.url).href;`,
        loader: 'js',
      };
    }
    if (this.#bytes > LIMITS.pageInputBytes) return { contents: '', loader };
    const contents = this.text(path);
    this.#bytes += contents.length;
    if (this.#bytes <= LIMITS.pageInputBytes) return { contents, loader };
    const most = `${LIMITS.pageInputBytes / MiB} MiB`;
    return { errors: [{ text: `The page imports files of more than ${most} in all; import less` }] };
  }
}

function outputOf({ outputFiles, warnings, metafile }: Built, entry: string): BuiltPage {
  const files = new Map<string, Buffer>();
  for (const { path, contents } of outputFiles) {
    const isMap = path.endsWith('.map');
    if (!isMap && contents.length > LIMITS.pageBytes) throw tooLarge(path.slice(1), contents.length, metafile, entry);
    if (!isMap || contents.length <= LIMITS.archiveFileBytes) files.set(path.slice(1), Buffer.from(contents));
  }
  const own = warnings.map((one) => findingOf(one, entry)).filter(({ path }) => !path.startsWith('_packages/'));
  return { files, warnings: own };
}

/** A file of the app would not be served any more. One that is built into the page is served as a part of it. */
function refuseTaken(paths: ReadonlyMap<string, string>, { files }: BuiltPage, inputs: string[]): void {
  for (const name of files.keys()) {
    if (!paths.has(name) || inputs.includes(name)) continue;
    const message = `The page is built into ${name}, and the app has a file of this name that is no part of it. Rename it, or remove it.`;
    throw invalidPage([{ path: name, keyword: 'build', message, line: 1, column: 1 }]);
  }
}

function findingOf({ text, location }: Message, entry: string): InputIssue {
  const path = location === null ? entry : location.file.replace(/^\/|^<|>$/g, '');
  const line = Math.max(1, location?.line ?? 1);
  // It counts bytes.
  const before = Buffer.from(location?.lineText ?? '').subarray(0, location?.column ?? 0);
  const message = /[.!?]$/.test(text) ? text : `${text}.`;
  return { path, keyword: 'build', message, line, column: before.toString().length + 1 };
}

function invalidPage(findings: InputIssue[]): SvcError {
  return invalidSources('INVALID_PAGE', findings);
}

function tooSlow(entry: string): SvcError {
  const message = `${entry}: building the page takes more than ${LIMITS.pageBuildMs / 1000} s; import less.`;
  return new SvcError('INVALID_PAGE', message, { path: entry });
}

function tooLarge(name: string, bytes: number, { outputs }: Built['metafile'], entry: string): SvcError {
  const parts = Object.entries(outputs[name]?.inputs ?? {})
    .sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput)
    .slice(0, NAMED)
    .map(([path, { bytesInOutput }]) => `${path} ${inMiB(bytesInOutput)}`);
  const message = `The page is built into ${name} of ${inMiB(bytes)}, and it may have ${inMiB(LIMITS.pageBytes)}: ${parts.join(', ')}.`;
  return invalidPage([{ path: entry, keyword: 'build', message, line: 1, column: 1 }]);
}

function inMiB(bytes: number): string {
  return `${(bytes / MiB).toFixed(1)} MiB`;
}
