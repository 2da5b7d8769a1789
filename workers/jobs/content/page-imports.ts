/** Finds what an import in the page of an app leads to: a file of the app, the bundle of a package, or an address for the browser. */
import { posix } from 'node:path';
import type { ImportKind } from 'esbuild';
import { BUNDLERS, isNodeModule } from '../../../protocol/rules/handler-imports.ts';
import { isAddress, isRelative, PAGE_MODULES, pagePackageFile } from '../../../protocol/rules/page-build.ts';
import { staticType } from '../../../protocol/rules/static-files.ts';

type Target = { file: string } | { external: string } | { refused: string };

export class PageImports {
  readonly #files: ReadonlySet<string>;

  /** `files` are the paths of the app. */
  constructor(files: Iterable<string>) {
    this.#files = new Set(files);
  }

  /** `importer` is a path in the app. */
  find(specifier: string, importer: string, kind: ImportKind): Target {
    const bundle = pagePackageFile(specifier);
    // Some packages have the name of a module of Node.
    if (this.#files.has(bundle)) return { file: bundle };
    if (isNodeModule(specifier))
      return { refused: `It imports "${specifier}" of Node, and browsers have no such module` };
    if (isAddress(specifier) || specifier.startsWith('#')) return { external: specifier };
    if (kind === 'url-token') return this.#shown(specifier, importer);
    if (isRelative(specifier) || kind === 'import-rule') return this.#relative(specifier, importer);
    const advice = `A file of the app begins with "./" or "../"; packages are bundled by ${BUNDLERS}`;
    return { refused: `It imports "${specifier}", and the app has no bundle of it. ${advice}` };
  }

  #relative(specifier: string, importer: string): Target {
    const target = posix.join(posix.dirname(importer), specifier);
    if (leadsOut(target)) return { refused: `It imports "${specifier}", which leads out of the app` };
    if (target.endsWith('.d.ts'))
      return { refused: `It imports "${specifier}", which has types only; write \`import type\`` };
    const candidates = [target, ...PAGE_MODULES.map((ending) => target + ending), ...sourcesOf(target)];
    const file = candidates.find((path) => this.#files.has(path));
    return file === undefined ? { refused: `It imports "${specifier}", and the app has no such file` } : { file };
  }

  /** What a style sheet shows is served as it is; the built sheet lies at the top. */
  #shown(address: string, importer: string): Target {
    const [, path = '', rest = ''] = /^([^?#]*)(.*)$/s.exec(address) ?? [];
    const target = posix.join(posix.dirname(importer), path);
    if (leadsOut(target) || !this.#files.has(target) || staticType(target) === undefined)
      return { refused: `It shows "${address}", and the app serves no such file` };
    return { external: `./${target}${rest}` };
  }
}

function leadsOut(path: string): boolean {
  return path === '..' || path.startsWith('../');
}

/** TypeScript may import `./dates.js`, meaning `dates.ts`; a folder means its `index`. */
function sourcesOf(target: string): string[] {
  const sources = /\.m?jsx?$/.test(target) ? ['.ts', '.tsx'].map((ending) => target.replace(/\.m?jsx?$/, ending)) : [];
  return [...sources, ...PAGE_MODULES.map((ending) => posix.join(target, `index${ending}`))];
}
