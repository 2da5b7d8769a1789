/**
 * Bundles the packages that handlers and the page of an app folder import, from `node_modules`: one module for each name that is imported,
 * and chunks for what several of them share. The gateway stores them like other files of the app. The same packages and the same
 * imports give the same bytes.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { BuildFailure, BuildOptions, BuildResult, Message, Plugin } from 'esbuild';
import type { ErrorCode, InputIssue } from '../../protocol/errors.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isNodeModule, PACKAGES_FOLDER } from '../../protocol/rules/handler-imports.ts';
import { PAGE_OPTIONS, PAGE_PACKAGES } from '../../protocol/rules/page-build.ts';
import { invalidSources } from '../../protocol/rules/source-findings.ts';
import { formatBytes } from '../../protocol/text/units.ts';
import type { BundleFiles } from './app-reader.ts';
import { findPackageUses, type PackageUse, type SourcePlace } from './package-uses.ts';
import { findPageUses } from './page-uses.ts';

/** `issues` say which imports have no bundle, and why; `code` is that of their error. */
type Bundles = { files: BundleFiles; issues: InputIssue[]; code: ErrorCode };

type Built = BuildResult<{ write: false; metafile: true }>;

/** The esbuild namespace of the generated modules, one for each import of a package. */
const NAMESPACE = 'imports';
/** Modules with this extension see CommonJS as in Node. */
const ENDING = '.mjs';

/** Line breaks are kept, so that diffs are readable. */
const COMMON = {
  splitting: true,
  chunkNames: '_[hash]',
  sourcemap: 'linked',
  sourcesContent: false,
  tsconfigRaw: {},
} satisfies BuildOptions;

/** Who imports packages: with which options they are bundled, and what messages say of the importer. */
type Importer = { code: ErrorCode; options: BuildOptions & { outdir: string }; runs: string; lacks: string };

/** Handlers have the globals of web workers and no Node modules, so packages' builds for workers are chosen. */
const HANDLERS: Importer = {
  code: 'INVALID_HANDLER',
  options: {
    ...PAGE_OPTIONS,
    ...COMMON,
    conditions: ['worker', 'module'],
    target: 'node20.19',
    outdir: PACKAGES_FOLDER,
  },
  runs: 'handlers run JavaScript only',
  lacks: 'handlers have no modules of Node. Use a package that runs in browsers or workers',
};
const PAGE: Importer = {
  code: 'INVALID_PAGE',
  options: { ...PAGE_OPTIONS, ...COMMON, outdir: PAGE_PACKAGES },
  runs: 'browsers run JavaScript only',
  lacks: 'browsers have no modules of Node. Use a package that runs in browsers',
};

export class Packages {
  readonly #folder: string;
  /** The last bundles without issues of each, with the imports and the state of the files that they come from. */
  readonly #last = new Map<Importer, { key: string; inputs: Map<string, string>; bundles: Bundles }>();
  /** What the page imported when it could be read last. */
  #pageUses: PackageUse[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** For the app of these files, paths in the folder. A package that is not installed may be in `files` as an earlier bundle. */
  async bundle(files: string[]): Promise<Bundles> {
    const ofHandlers = await this.#bundle(HANDLERS, files, await findPackageUses(this.#folder, files));
    this.#pageUses = (await findPageUses(realpathSync(this.#folder), files)) ?? this.#pageUses;
    const ofPage = await this.#bundle(PAGE, files, this.#pageUses);
    return {
      files: new Map([...ofHandlers.files, ...ofPage.files]),
      issues: [...ofHandlers.issues, ...ofPage.issues],
      code: ofHandlers.issues.length > 0 ? ofHandlers.code : ofPage.code,
    };
  }

  async #bundle(importer: Importer, files: string[], uses: PackageUse[]): Promise<Bundles> {
    const { code } = importer;
    const present = new Set(files);
    const missing = uses.filter((use) => !isInstalled(this.#folder, use.specifier));
    const installed = uses.filter((use) => !missing.includes(use));
    const issues = missing.filter(({ file }) => !present.has(file)).map(notInstalled);
    if (installed.length === 0) return { files: new Map(), issues, code };
    const key = JSON.stringify(installed.map(({ file, names, whole }) => [file, [...names.keys()], whole !== null]));
    const last = this.#last.get(importer);
    if (issues.length === 0 && last?.key === key && isCurrent(last.inputs)) return last.bundles;
    const folder = realpathSync(this.#folder);
    const bundled = await bundle(importer, folder, installed);
    const bundles = { files: bundled.files, issues: [...issues, ...bundled.issues].sort(byPlace), code };
    if (bundles.issues.length > 0) this.#last.delete(importer);
    else this.#last.set(importer, { key, inputs: statesOf(folder, bundled.inputs), bundles });
    return bundles;
  }
}

/** The bundles for an app that is sent as a whole. Throws `INVALID_HANDLER` or `INVALID_PAGE` when one is missing. */
export async function bundlePackages(folder: string, files: string[]): Promise<BundleFiles> {
  const bundles = await new Packages(folder).bundle(files);
  if (bundles.issues.length > 0) throw refusal(bundles);
  return bundles.files;
}

/** The error that the gateway would answer with. */
export function refusal({ issues, code }: Bundles): GatewayError {
  const error = invalidSources(code, issues);
  return new GatewayError(error.status, error.toBody());
}

type Bundled = { files: Map<string, Buffer>; inputs: string[]; issues: InputIssue[] };

/** All that can be bundled; when something cannot, each import is tried alone, to find the one at fault. */
async function bundle(importer: Importer, folder: string, uses: PackageUse[]): Promise<Bundled> {
  if (uses.length === 0) return { files: new Map(), inputs: [], issues: [] };
  const built = await build(importer, folder, uses);
  const issues = 'failed' in built ? [] : uses.flatMap((use) => faultOf(use, built) ?? []);
  if (!('failed' in built) && issues.length === 0) return { ...outputOf(folder, built), issues };
  const [only, ...others] = uses as [PackageUse];
  if (others.length === 0) {
    const issue = 'failed' in built ? issueOf(importer, folder, only, built.failed[0]) : issues[0];
    return { files: new Map(), inputs: [], issues: issue ? [issue] : [] };
  }
  const good: PackageUse[] = [];
  const found: InputIssue[] = [];
  for (const use of uses) {
    const alone = await bundle(importer, folder, [use]);
    if (alone.issues.length === 0) good.push(use);
    found.push(...alone.issues);
  }
  return { ...(await bundle(importer, folder, good)), issues: found };
}

async function build(
  { options }: Importer,
  folder: string,
  uses: PackageUse[],
): Promise<Built | { failed: Message[] }> {
  const { build } = await import('esbuild');
  // Sorted, so that the bundles do not depend on which handler imports what.
  const names = uses.map(({ specifier }) => specifier).sort();
  const entryPoints = names.map((name) => ({ in: name, out: name }));
  try {
    const plugins = [importing(folder, uses)];
    return (await build({ ...options, absWorkingDir: folder, entryPoints, plugins })) as Built;
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

function issueOf({ runs, lacks }: Importer, folder: string, use: PackageUse, error: Message | undefined): InputIssue {
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
  if (native) return issueAt(at, `It imports "${specifier}", which is native${place}; ${runs}.`);
  if (unresolved !== undefined && isNodeModule(unresolved))
    return issueAt(at, `It imports "${specifier}", which needs "${unresolved}" of Node${place}; ${lacks}.`);
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
