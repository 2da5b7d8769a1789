/** Finds handlers that do not parse, before somebody calls them or publishing refuses them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorBody } from '../protocol/errors.ts';

/** Where an app keeps code that the gateway runs. */
const HANDLERS = /^(?:queries|actions|automations|lib)\/.*\.m?js$/;

/** What a publication would say of the first such file, with its place; null when all parse. */
export async function checkSyntax(folder: string, files: string[]): Promise<ErrorBody | null> {
  const handlers = files.filter((file) => HANDLERS.test(file));
  if (handlers.length === 0) return null;
  const { parse } = await import('acorn');
  for (const path of handlers) {
    try {
      parse(readFileSync(join(folder, path), 'utf8'), {
        ecmaVersion: 'latest',
        sourceType: 'module',
        allowHashBang: true,
      });
    } catch (error) {
      const { loc } = error as { loc?: { line: number; column: number } };
      // One that has gone meanwhile is looked at when the folder is.
      if (loc === undefined) continue;
      const reason = (error as Error).message.replace(/ \(\d+:\d+\)$/, '');
      const place = `${path}:${loc.line}:${loc.column + 1}`;
      return { code: 'INVALID_HANDLER', message: `${place}: It does not parse: ${reason}.`, path };
    }
  }
  return null;
}
