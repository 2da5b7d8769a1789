/** Finds handlers, and a manifest, that do not parse, before somebody calls them or publishing refuses them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorBody } from '../protocol/errors.ts';
import { jsonFault, type Place } from './source-excerpt.ts';

/** Where an app keeps code that the gateway runs. */
const HANDLERS = /^(?:queries|actions|automations|lib)\/.*\.m?js$/;

/** What a publication would say of the first such file, with its place; null when all parse. */
export async function checkSyntax(folder: string, files: string[]): Promise<ErrorBody | null> {
  const inManifest = files.includes('app.json') ? jsonFault(readFileSync(join(folder, 'app.json'), 'utf8')) : null;
  if (inManifest?.place) {
    return faultAt('INVALID_MANIFEST', 'app.json', inManifest.place, `It is not valid JSON: ${inManifest.reason}.`);
  }
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
      const place = { line: loc.line, column: loc.column + 1 };
      return faultAt('INVALID_HANDLER', path, place, `It does not parse: ${reason}.`);
    }
  }
  return null;
}

function faultAt(code: ErrorBody['code'], path: string, { line, column }: Place, message: string): ErrorBody {
  const issue = { path, keyword: 'syntax', message, line, column };
  return { code, message: `${path}:${line}:${column}: ${message}`, path, issues: [issue] };
}
