/** Reads files of an app as the loader of handlers would. */
import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import type { HandlerSource } from '../../protocol/rules/gates/check-handlers.ts';

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
