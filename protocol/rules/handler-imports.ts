/** Checks the imports of handlers: for the loader when a handler runs, for the gates when one is published. */
import { isBuiltin } from 'node:module';
import { posix } from 'node:path';

const TYPES = ['.js', '.mjs', '.ts', '.json'];

/** Folder of an app for the packages that its handlers import: made by the command line from `node_modules`, never served. */
export const PACKAGES_FOLDER = '_packages';

/** The commands that make it. */
export const BUNDLERS = 'svc push, svc dev and svc publish <dir>';

/** An npm package name, with or without a path after it. */
const PACKAGE = /^(?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~-][\w.~-]*(?:\/[\w.~@+-]+)*$/i;

/** The app-relative path that `specifier` means in `importer`. Throws for anything but a file of the app or a package. */
export function resolve(specifier: string, importer: string): string {
  const target = resolveSpecifier(specifier, importer);
  if ('refused' in target) throw new Error(`${importer} imports "${specifier}": ${target.refused}`);
  return target.file;
}

/** The same, with the reason as a value. */
export function resolveSpecifier(specifier: string, importer: string): { file: string } | { refused: string } {
  if (isNodeModule(specifier)) {
    return { refused: 'handlers cannot import Node built-ins; use db, log and ctx.fetch.' };
  }
  if (!specifier.startsWith('./') && !specifier.startsWith('../')) {
    const file = packageFile(specifier);
    if (file !== null) return { file };
    return {
      refused: 'handlers import files of their own app, by a relative path such as "../lib/dates.js", and packages.',
    };
  }
  const file = posix.join(posix.dirname(importer), specifier);
  if (file.startsWith('../') || specifier.includes('\\') || specifier.includes('\0')) {
    return { refused: 'it leads out of the app.' };
  }
  if (file.endsWith('.d.ts')) return { refused: 'it has types only; write `import type`.' };
  if (!TYPES.includes(posix.extname(file))) {
    return { refused: `handlers import ${TYPES.join(', ')} files, with the ending written out.` };
  }
  return { file };
}

/** Path of the bundle of the package that `specifier` names: `zod` → `_packages/zod.js`. Null where it cannot be a package. */
function packageFile(specifier: string): string | null {
  if (!PACKAGE.test(specifier) || isNodeModule(specifier)) return null;
  if (specifier.split('/').some((segment) => segment === '.' || segment === '..')) return null;
  return `${PACKAGES_FOLDER}/${specifier}.js`;
}

/** Whether a file of an app is part of a bundle. */
export function isOfPackage(file: string): boolean {
  return file.startsWith(`${PACKAGES_FOLDER}/`);
}

export function isNodeModule(specifier: string): boolean {
  return isBuiltin(specifier) || specifier.startsWith('node:');
}

/** Whether its types are erased before it runs. */
export function isTypeScript(file: string): boolean {
  return file.endsWith('.ts') && !file.endsWith('.d.ts');
}
