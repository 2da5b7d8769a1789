/**
 * Checks the handlers of a version, and erases types from TypeScript (specification, "Handler rules" and
 * "TypeScript and packages").
 */
import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { HandlerSource } from '../../protocol/rules/gates/check-handlers.ts';
import { isTypeScript } from '../../protocol/rules/handler-imports.ts';
import { unusedHandlers } from '../../protocol/rules/near-misses.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import { writeNewFile } from './content/files.ts';
import { timeLimited } from './control.ts';

/** Path → the TypeScript module without its types, or with the fault that keeps them from being erased. */
export type ErasedModules = Map<string, Extract<HandlerSource, { text: string }>>;

type Version = { code: string; paths: string[]; manifest: Manifest; automations: { id: string }[] };

/**
 * Every finding in the handlers, files of handlers that nothing uses, and the TypeScript among them and what they import. Throws
 * `INVALID_HANDLER` when it takes too long.
 */
export async function inspectHandlers({
  code,
  paths,
  manifest,
  automations,
}: Version): Promise<{ found: InputIssue[]; unused: InputIssue[]; erased: ErasedModules }> {
  const { checkHandlers } = await import('../../protocol/rules/gates/check-handlers.ts');
  // It is large, and most apps have none.
  const eraser = paths.some(isTypeScript) ? await import('../../protocol/rules/gates/erase-types.ts') : null;
  const erased: ErasedModules = new Map();
  const used = new Set<string>();
  const read = (file: string): HandlerSource => {
    used.add(file);
    const known = erased.get(file);
    if (known !== undefined) return known;
    const source = readSource(code, file);
    if ('refused' in source || eraser === null || !isTypeScript(file)) return source;
    const result = timeLimited((about) => {
      about(tooSlow(file));
      return eraser.eraseTypes(source.text);
    });
    const module = 'text' in result ? result : { text: source.text, fault: result };
    erased.set(file, module);
    return module;
  };
  const ids = automations.map(({ id }) => id);
  const found = checkHandlers(read, manifest, ids);
  return { found, unused: unusedHandlers(paths, manifest, used), erased };
}

function tooSlow(path: string): SvcError {
  const seconds = LIMITS.schemasMs / 1000;
  const message = `${path}: erasing its types takes more than ${seconds} s; break it into smaller functions.`;
  return new SvcError('INVALID_HANDLER', message, { path });
}

/**
 * Writes them beside the version for the loader of handlers. A fault becomes the text that follows the module's path: `fault` in a
 * folder in the place of the module, whose name is not longer.
 */
export async function writeErased(erased: ErasedModules, { erasedDir }: VersionPaths): Promise<void> {
  if (erased.size === 0) return;
  const { Lines } = await import('../../protocol/rules/gates/syntax.ts');
  for (const [path, { text, fault }] of erased) {
    if (fault === undefined) {
      writeNewFile(join(erasedDir, path), text);
      continue;
    }
    const { line, column } = new Lines(text).position(fault.at);
    writeNewFile(join(erasedDir, path, 'fault'), `:${line}:${column}: ${fault.message}`);
  }
}

/** The text of an app's file, or why a handler could not be loaded from it. Follows no link out of the folder. */
export function readSource(code: string, file: string): HandlerSource {
  let path = code;
  try {
    let bytes = 0;
    let isFile = false;
    for (const segment of file.split('/')) {
      path = join(path, segment);
      const status = lstatSync(path);
      if (status.isSymbolicLink()) return { refused: 'is or lies behind a symbolic link, which is not followed' };
      isFile = status.isFile();
      bytes = status.size;
    }
    if (!isFile) return { refused: 'is not a file' };
    if (bytes > LIMITS.archiveFileBytes) return { refused: `is larger than ${LIMITS.archiveFileBytes} bytes` };
    return { text: readFileSync(path, 'utf8') };
  } catch (error) {
    const { code: reason } = error as NodeJS.ErrnoException;
    if (reason === 'ENOENT' || reason === 'ENOTDIR' || reason === 'ENAMETOOLONG') return { refused: 'does not exist' };
    if (reason === 'EACCES' || reason === 'EPERM') return { refused: `cannot be read (${reason})` };
    throw error;
  }
}
