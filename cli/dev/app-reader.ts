/** Reads the handlers of an app folder as a gateway would see them: TypeScript without its types, packages as they are bundled. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ReadHandler } from '../../protocol/rules/gates/check-handlers.ts';
import { isTypeScript } from '../../protocol/rules/handler-imports.ts';

/** Bundles of packages: path in the app → content. */
export type BundleFiles = ReadonlyMap<string, Buffer>;

/** Reads these files of the folder, and `bundles` in place of files of the same name. */
export async function appReader(
  folder: string,
  files: string[],
  bundles: BundleFiles = new Map(),
): Promise<ReadHandler> {
  const present = new Set(files);
  const eraser = files.some(isTypeScript) ? await import('../../protocol/rules/gates/erase-types.ts') : null;
  return (file) => {
    const text = bundles.get(file)?.toString() ?? (present.has(file) ? textOf(folder, file) : null);
    if (text === null) return { refused: 'does not exist' };
    if (eraser === null || !isTypeScript(file)) return { text };
    const erased = eraser.eraseTypes(text);
    return 'text' in erased ? erased : { text, fault: erased };
  };
}

/** Null if it can no longer be read; the next scan of the folder reports why. */
export function textOf(folder: string, file: string): string | null {
  try {
    return readFileSync(join(folder, file), 'utf8');
  } catch {
    return null;
  }
}
