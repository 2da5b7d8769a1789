/** What an import of a handler may name. The loader holds to it when a handler runs, the gates when one is published. */
import { isBuiltin } from 'node:module';
import { posix } from 'node:path';

const TYPES = ['.js', '.mjs', '.ts', '.json'];

/** The app-relative path that `specifier` means in `importer`. Throws for anything but a file of the app. */
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
    return {
      refused: 'handlers import only files of their own app, by a relative path such as "../lib/dates.js".',
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

export function isNodeModule(specifier: string): boolean {
  return isBuiltin(specifier) || specifier.startsWith('node:');
}

/** Whether its types are erased before it runs. */
export function isTypeScript(file: string): boolean {
  return file.endsWith('.ts') && !file.endsWith('.d.ts');
}
