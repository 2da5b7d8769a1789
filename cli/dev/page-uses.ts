/** Finds which packages the page of an app folder imports, and which of their exports: for a page with an `entry`, as esbuild reads it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AnyNode, Program } from 'acorn';
import type { ImportKind, Plugin } from 'esbuild';
import { STATIC_TYPES } from '../../protocol/http/media-types.ts';
import {
  isAddress,
  isRelative,
  PAGE_MODULES,
  PAGE_OPTIONS,
  PAGE_SETTINGS,
  pagePackageFile,
} from '../../protocol/rules/page-build.ts';
import { textOf } from './app-reader.ts';
import type { PackageUse, SourcePlace } from './package-uses.ts';

/** What of a package is used; null for all of it. */
type Used = Map<string, Set<string> | null>;

/** Matches every import of a package, and some other texts. JSX imports one without a word. */
const MAYBE = /\b(?:from|import)\s*\(?\s*["'`][a-z0-9@~]/i;
const JSX = /\.[jt]sx$/;

/** What a style sheet or a script shows is no code. */
const SHOWN = Object.keys(STATIC_TYPES).filter((ending) => !(PAGE_MODULES as readonly string[]).includes(ending));

/**
 * In the order of their names; empty for a page that is served as it is. Null when the page cannot be read as it is now: the gateway says
 * why.
 */
export async function findPageUses(folder: string, files: string[]): Promise<PackageUse[] | null> {
  const entry = files.includes('app.json') ? entryOf(textOf(folder, 'app.json')) : null;
  if (entry === null || !files.includes(entry)) return [];
  const modules = files.filter((file) => /\.(?:mjs|[jt]sx?)$/.test(file));
  if (!modules.some((file) => JSX.test(file) || MAYBE.test(textOf(folder, file) ?? ''))) return [];
  const importers = new Map<string, string>();
  const text = await bundleOwn(folder, files, entry, importers);
  if (text === null) return null;
  const { parseModule } = await import('../../protocol/rules/gates/syntax.ts');
  const parsed = parseModule(text, () => {});
  if (!('program' in parsed)) return null;
  const used = await usesIn(parsed.program);
  return [...used]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([specifier, names]) => {
      const at = placeOf(folder, importers.get(specifier) ?? entry, specifier);
      const named = new Map([...(names ?? [])].map((name) => [name, at]));
      return { specifier, file: pagePackageFile(specifier), at, names: named, whole: names === null ? at : null };
    });
}

function entryOf(manifest: string | null): string | null {
  try {
    const entry = (JSON.parse(manifest ?? '') as { page?: { entry?: unknown } } | null)?.page?.entry;
    return typeof entry === 'string' ? entry : null;
  } catch {
    // Checked before it is sent.
    return null;
  }
}

/** The app's own modules as one, which imports the packages; types and what is not used are gone. `importers` get the first file of each. */
async function bundleOwn(
  folder: string,
  files: string[],
  entry: string,
  importers: Map<string, string>,
): Promise<string | null> {
  const { build } = await import('esbuild');
  const outside: Plugin = {
    name: 'outside',
    setup({ onResolve }) {
      onResolve({ filter: /.*/ }, ({ kind, path, importer }) => {
        if (kind === 'entry-point' || !isOutside(path, kind)) return undefined;
        if (!isAddress(path) && !importers.has(path)) importers.set(path, importer.slice(folder.length + 1));
        return { path, external: true };
      });
    },
  };
  const settings = files.includes(PAGE_SETTINGS) ? textOf(folder, PAGE_SETTINGS) : null;
  try {
    const { outputFiles } = await build({
      ...PAGE_OPTIONS,
      absWorkingDir: folder,
      entryPoints: [entry],
      outdir: '.',
      resolveExtensions: [...PAGE_MODULES],
      loader: Object.fromEntries(SHOWN.map((ending) => [ending, 'empty'])),
      ...(settings === null ? {} : { tsconfigRaw: settings }),
      plugins: [outside],
    });
    return outputFiles.find(({ path }) => path.endsWith('.js'))?.text ?? '';
  } catch {
    return null;
  }
}

function isOutside(path: string, kind: ImportKind): boolean {
  return kind === 'url-token' || (kind !== 'import-rule' && !isRelative(path)) || isAddress(path);
}

async function usesIn(program: Program): Promise<Used> {
  const { full } = await import('acorn-walk');
  const used: Used = new Map();
  const add = (source: AnyNode | null | undefined, names: string[] | null): void => {
    const specifier = source?.type === 'Literal' && typeof source.value === 'string' ? source.value : null;
    if (specifier === null || isAddress(specifier) || isRelative(specifier)) return;
    const known = used.get(specifier);
    if (names === null || known === null) used.set(specifier, null);
    else used.set(specifier, new Set([...(known ?? []), ...names]));
  };
  for (const node of program.body) {
    if (node.type === 'ExportAllDeclaration') add(node.source, null);
    if (node.type === 'ExportNamedDeclaration')
      add(
        node.source,
        node.specifiers.map(({ local }) => nameOf(local)),
      );
    if (node.type !== 'ImportDeclaration') continue;
    add(node.source, []);
    for (const one of node.specifiers) {
      if (one.type === 'ImportDefaultSpecifier') add(node.source, ['default']);
      else if (one.type === 'ImportSpecifier') add(node.source, [nameOf(one.imported)]);
      else add(node.source, membersOf(program, one.local.name, full));
    }
  }
  full(program, (node) => {
    if (node.type === 'ImportExpression') add((node as AnyNode & { type: 'ImportExpression' }).source, null);
  });
  return used;
}

/** `a` and `b` of `all.a(all.b)`; null when `all` is used in another way. */
function membersOf(program: Program, local: string, full: typeof import('acorn-walk').full): string[] | null {
  const names: string[] = [];
  let mentions = 0;
  full(program, (one) => {
    const node = one as AnyNode;
    if (node.type === 'Identifier' && node.name === local) mentions++;
    if (node.type !== 'MemberExpression' || node.computed || node.property.type !== 'Identifier') return;
    if (node.object.type === 'Identifier' && node.object.name === local) names.push(node.property.name);
  });
  return mentions === names.length ? names : null;
}

function nameOf(node: AnyNode): string {
  return node.type === 'Identifier' ? node.name : String((node as { value?: unknown }).value);
}

/** Where the file names the package; its begin where JSX does. */
function placeOf(folder: string, path: string, specifier: string): SourcePlace {
  const text = readFileSync(join(folder, path), 'utf8');
  const at = Math.max(text.indexOf(`'${specifier}'`), text.indexOf(`"${specifier}"`), 0);
  const before = text.slice(0, at).split(/\r\n?|\n/);
  return { path, line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}
