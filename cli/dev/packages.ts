/**
 * Bundles the packages that handlers of an app folder import, from `node_modules`: one module for each name that is imported, and
 * chunks for what several of them share. The gateway stores them like other files of the app. The same packages and the same
 * imports give the same bytes.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { BuildFailure, BuildOptions, BuildResult, Message, Plugin } from 'esbuild';
import type { InputIssue } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isNodeModule, PACKAGES_FOLDER } from '../../protocol/rules/handler-imports.ts';
import { GatewayError } from '../failure.ts';
import { formatBytes } from '../terminal/units.ts';
import type { BundleFiles } from './app-reader.ts';
import { findPackageUses, type PackageUse, type SourcePlace } from './package-uses.ts';

/** `issues` say which imports have no bundle, and why. */
type Bundles = { files: BundleFiles; issues: InputIssue[] };

type Built = BuildResult<{ write: false; metafile: true }>;

const NONE: Bundles = { files: new Map(), issues: [] };
/** The esbuild namespace of the generated modules, one for each import of a package. */
const NAMESPACE = 'imports';
/** Modules with this extension see CommonJS as in Node. */
const ENDING = '.mjs';

/**
 * Handlers have the globals of web workers and no Node modules, so packages' builds for workers are chosen. Line breaks
 * are kept, so that diffs are readable.
 */
const OPTIONS = {
  bundle: true,
  format: 'esm',
  platform: 'browser',
  conditions: ['worker', 'module'],
  target: 'node20.19',
  splitting: true,
  chunkNames: '_[hash]',
  outdir: PACKAGES_FOLDER,
  write: false,
  metafile: true,
  sourcemap: 'linked',
  sourcesContent: false,
  charset: 'utf8',
  define: { 'process.env.NODE_ENV': '"production"' },
  tsconfigRaw: {},
  logLevel: 'silent',
} satisfies BuildOptions;

export class Packages {
  readonly #folder: string;
  /** The last bundles without issues, with the imports and the state of the files that they come from. */
  #last: { key: string; inputs: Map<string, string>; bundles: Bundles } | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** For the app of these files, paths in the folder. A package that is not installed may be in `files` as an earlier bundle. */
  async bundle(files: string[]): Promise<Bundles> {
    const present = new Set(files);
    const uses = await findPackageUses(this.#folder, files);
    const missing = uses.filter((use) => !isInstalled(this.#folder, use.specifier));
    const installed = uses.filter((use) => !missing.includes(use));
    const issues = missing.filter(({ file }) => !present.has(file)).map(notInstalled);
    if (installed.length === 0) return issues.length === 0 ? NONE : { ...NONE, issues };
    const key = JSON.stringify(installed.map(({ file, names, whole }) => [file, [...names.keys()], whole !== null]));
    if (issues.length === 0 && this.#last?.key === key && isCurrent(this.#last.inputs)) return this.#last.bundles;
    const folder = realpathSync(this.#folder);
    const bundled = await bundle(folder, installed);
    const bundles = { files: bundled.files, issues: [...issues, ...bundled.issues].sort(byPlace) };
    this.#last = bundles.issues.length === 0 ? { key, inputs: statesOf(folder, bundled.inputs), bundles } : null;
    return bundles;
  }
}

/** The bundles for an app that is sent as a whole. Throws `INVALID_HANDLER` when one is missing. */
export async function bundlePackages(folder: string, files: string[]): Promise<BundleFiles> {
  const bundles = await new Packages(folder).bundle(files);
  if (bundles.issues.length > 0) throw await refusal(bundles);
  return bundles.files;
}

/** The error that the gateway would answer with. */
export async function refusal({ issues }: Bundles): Promise<GatewayError> {
  const { invalidHandler } = await import('../../protocol/rules/gates/check-handlers.ts');
  const error = invalidHandler(issues);
  return new GatewayError(error.status, error.toBody());
}

type Bundled = { files: Map<string, Buffer>; inputs: string[]; issues: InputIssue[] };

/** All that can be bundled; when something cannot, each import is tried alone, to find the one at fault. */
async function bundle(folder: string, uses: PackageUse[]): Promise<Bundled> {
  if (uses.length === 0) return { files: new Map(), inputs: [], issues: [] };
  const built = await build(folder, uses);
  const issues = 'failed' in built ? [] : uses.flatMap((use) => faultOf(use, built) ?? []);
  if (!('failed' in built) && issues.length === 0) return { ...outputOf(folder, built), issues };
  const [only, ...others] = uses as [PackageUse];
  if (others.length === 0) {
    const issue = 'failed' in built ? issueOf(folder, only, built.failed[0]) : issues[0];
    return { files: new Map(), inputs: [], issues: issue ? [issue] : [] };
  }
  const good: PackageUse[] = [];
  const found: InputIssue[] = [];
  for (const use of uses) {
    const alone = await bundle(folder, [use]);
    if (alone.issues.length === 0) good.push(use);
    found.push(...alone.issues);
  }
  return { ...(await bundle(folder, good)), issues: found };
}

async function build(folder: string, uses: PackageUse[]): Promise<Built | { failed: Message[] }> {
  const { build } = await import('esbuild');
  // Sorted, so that the bundles do not depend on which handler imports what.
  const names = uses.map(({ specifier }) => specifier).sort();
  const entryPoints = names.map((name) => ({ in: name, out: name }));
  try {
    return await build({ ...OPTIONS, absWorkingDir: folder, entryPoints, plugins: [importing(folder, uses)] });
  } catch (error) {
    const { errors = [] } = error as Partial<BuildFailure>;
    if (errors.length === 0) throw error;
    return { failed: errors };
  }
}

/** A module that exports the used names of a package, or the package itself if all of it may be used. */
function importing(folder: string, uses: PackageUse[]): Plugin {
  const used = new Map(uses.map((use) => [use.specifier, use]));
  return {
    name: 'handlers',
    setup({ onResolve, onLoad, resolve }) {
      onResolve({ filter: /.*/ }, async ({ kind, path }) => {
        if (kind !== 'entry-point') return undefined;
        if (used.get(path)?.whole == null) return { path: path + ENDING, namespace: NAMESPACE };
        return resolve(path, { kind: 'import-statement', resolveDir: folder });
      });
      onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => {
        const specifier = path.slice(0, -ENDING.length);
        const names = [...(used.get(specifier)?.names.keys() ?? [])].sort().map((name) => JSON.stringify(name));
        const from = JSON.stringify(specifier);
        const contents = names.length === 0 ? `import ${from};` : `export { ${names.join(', ')} } from ${from};`;
        return { contents, resolveDir: folder };
      });
    },
  };
}

/** JavaScript and its source maps; a map that an app may not hold is left out. */
function outputOf(folder: string, { outputFiles, metafile }: Built): { files: Map<string, Buffer>; inputs: string[] } {
  const files = new Map<string, Buffer>();
  for (const { path, contents } of outputFiles) {
    if (/\.js(?:\.map)?$/.test(path) && contents.length <= LIMITS.archiveFileBytes)
      files.set(relative(folder, path), Buffer.from(contents));
  }
  return { files, inputs: Object.keys(metafile.inputs).filter((path) => !path.startsWith(`${NAMESPACE}:`)) };
}

/** What is wrong with a finished bundle. */
function faultOf(
  { specifier, file, at, whole }: PackageUse,
  { metafile: { inputs, outputs } }: Built,
): InputIssue | null {
  const entry = outputs[file]?.entryPoint ?? '';
  if (whole !== null && inputs[entry]?.format === 'cjs') {
    const message = `It imports all of "${specifier}", which is CommonJS, so its names are unknown before it runs; import its default, or names.`;
    return issueAt(whole, message);
  }
  const parts = new Set([file]);
  let bytes = 0;
  for (const part of parts) {
    bytes += outputs[part]?.bytes ?? 0;
    for (const { path } of outputs[part]?.imports ?? []) parts.add(path);
  }
  if (bytes <= LIMITS.bundleBytes) return null;
  const sizes = `${formatBytes(bytes)}; a bundle may have ${formatBytes(LIMITS.bundleBytes)}`;
  return issueAt(
    at,
    `It imports "${specifier}", whose bundle has ${sizes}. Import a part of it, or a smaller package.`,
  );
}

function issueOf(folder: string, use: PackageUse, error: Message | undefined): InputIssue {
  const { specifier, at, names } = use;
  const { text = '', location = null } = error ?? {};
  const name = packageName(specifier);
  const isOwn = location === null || location.file.startsWith(`${NAMESPACE}:`);
  const unresolved = /^Could not resolve "(.*)"/.exec(text)?.[1];
  const unexported = /^No matching export in .* for import "(.*)"$/.exec(text)?.[1];
  if (isOwn && unexported !== undefined)
    return issueAt(
      names.get(unexported) ?? at,
      `It imports "${unexported}" from "${specifier}", which does not export this name.`,
    );
  if (isOwn && unresolved !== undefined)
    return issueAt(
      at,
      `It imports "${specifier}", which the package ${name} does not have; see the "exports" in its package.json.`,
    );
  const place = location === null ? '' : ` (${location.file}:${location.line}:${location.column + 1})`;
  const native = /^No loader is configured for "\.node" files/.test(text) || isNative(folder, name);
  if (native) return issueAt(at, `It imports "${specifier}", which is native${place}; handlers run JavaScript only.`);
  if (unresolved !== undefined && isNodeModule(unresolved))
    return issueAt(
      at,
      `It imports "${specifier}", which needs "${unresolved}" of Node${place}; handlers have no modules of Node. Use a package that runs in browsers or workers.`,
    );
  if (unresolved !== undefined)
    return issueAt(
      at,
      `It imports "${specifier}", which needs "${unresolved}"${place}, and that is not in node_modules; install it in the app's folder: npm install.`,
    );
  return issueAt(at, `It imports "${specifier}", which cannot be bundled: ${text.replace(/\.$/, '')}${place}.`);
}

function notInstalled({ specifier, at }: PackageUse): InputIssue {
  const name = packageName(specifier);
  const advice = `install it in the app's folder: npm install ${name}. A file of the app begins with "./" or "../".`;
  return issueAt(at, `It imports "${specifier}", and ${name} is not in node_modules; ${advice}`);
}

function issueAt({ path, line, column }: SourcePlace, message: string): InputIssue {
  return { path, keyword: 'import', message, line, column };
}

function byPlace(a: InputIssue, b: InputIssue): number {
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}

function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

/** Where Node would find it: in the folder's `node_modules`, or in that of a folder above. Null when it is nowhere. */
function folderOf(folder: string, name: string): string | null {
  for (let above = folder; ; above = dirname(above)) {
    const found = join(above, 'node_modules', name);
    if (existsSync(found)) return found;
    if (dirname(above) === above) return null;
  }
}

function isInstalled(folder: string, specifier: string): boolean {
  return folderOf(folder, packageName(specifier)) !== null;
}

/** Whether it is compiled at installation, or contains a compiled binary. */
function isNative(folder: string, name: string): boolean {
  const found = folderOf(folder, name);
  return found !== null && ['binding.gyp', 'prebuilds'].some((part) => existsSync(join(found, part)));
}

function statesOf(folder: string, inputs: string[]): Map<string, string> {
  return new Map(inputs.map((path) => [join(folder, path), stateOf(join(folder, path))]));
}

function isCurrent(inputs: Map<string, string>): boolean {
  return [...inputs].every(([path, state]) => stateOf(path) === state);
}

/**
 * Package managers set the modification time to that of the publication, so only the change time shows a new
 * installation.
 */
function stateOf(path: string): string {
  const { ctimeMs, size, ino } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${ctimeMs} ${size} ${ino}`;
}
