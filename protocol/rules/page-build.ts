/**
 * How the page of an app is bundled (specification, "Pages with a build"): by the gateway from the app's files, with the
 * packages that the command line bundled from `node_modules` before.
 */
import type { BuildOptions } from 'esbuild';
import { PACKAGES_FOLDER } from './handler-imports.ts';

/** What a page with an `entry` is served as. */
export const PAGE_SCRIPT = 'app.js';

/** Folder of an app for the packages that its page imports. Theirs are not those of handlers: a package may have other code for browsers. */
export const PAGE_PACKAGES = `${PACKAGES_FOLDER}/_page`;

/** The options of both. */
export const PAGE_OPTIONS = {
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  charset: 'utf8',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' },
  write: false,
  metafile: true,
  logLevel: 'silent',
} satisfies BuildOptions;

/** Settings for the bundler that an app may have. Of `compilerOptions` it reads what changes the code: those of JSX, decorators and class fields. */
export const PAGE_SETTINGS = 'tsconfig.json';

/** Endings that an import may leave out, in this order. */
export const PAGE_MODULES = ['.tsx', '.ts', '.jsx', '.js', '.mjs', '.css', '.json'] as const;

/** Whether an import is left to the browser: an address of the gateway, such as `/svc/client.js`, or of another site. */
export function isAddress(specifier: string): boolean {
  return /^(?:\/|[a-z][a-z0-9+.-]*:)/i.test(specifier);
}

export function isRelative(specifier: string): boolean {
  return /^\.{1,2}(?:\/|$)/.test(specifier);
}

/** Path of the bundle of a package that a page imports: `preact/hooks` → `_packages/_page/preact/hooks.js`. */
export function pagePackageFile(specifier: string): string {
  return `${PAGE_PACKAGES}/${specifier}.js`;
}
