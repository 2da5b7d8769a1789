/** Finds handlers, and a manifest, that do not parse, before somebody calls them or publishing refuses them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorBody } from '../../protocol/errors.ts';
import { jsonFault, type Place } from './source-excerpt.ts';

/** Where an app keeps code that the gateway runs. */
const HANDLERS = /^(?:queries|actions|automations|lib)\/.*\.m?js$/;

/** Nothing else is done meanwhile. What is not parsed by then, the gates find. */
const BUDGET_MS = 1000;

/** What a publication would say of the first such file, with its place; null when all parse that it has the time for. */
export async function checkSyntax(folder: string, files: string[], ms: number = BUDGET_MS): Promise<ErrorBody | null> {
  const inManifest = files.includes('app.json') ? jsonFault(readFileSync(join(folder, 'app.json'), 'utf8')) : null;
  if (inManifest?.place) {
    return faultAt('INVALID_MANIFEST', 'app.json', inManifest.place, `It is not valid JSON: ${inManifest.reason}.`);
  }
  const handlers = files.filter((file) => HANDLERS.test(file));
  if (handlers.length === 0) return null;
  const { Lines, parseModule, TimeBudget, TookTooLong } = await import('../../protocol/rules/gates/parse.ts');
  const { step } = new TimeBudget(ms);
  try {
    for (const path of handlers) {
      const text = readText(join(folder, path));
      const parsed = parseModule(text, step);
      if ('program' in parsed) continue;
      return faultAt('INVALID_HANDLER', path, new Lines(text).position(parsed.at), parsed.message);
    }
  } catch (error) {
    if (!(error instanceof TookTooLong)) throw error;
  }
  return null;
}

function faultAt(code: ErrorBody['code'], path: string, { line, column }: Place, message: string): ErrorBody {
  const issue = { path, keyword: 'syntax', message, line, column };
  return { code, message: `${path}:${line}:${column}: ${message}`, path, issues: [issue] };
}

/** Of one that has gone meanwhile nothing: it is looked at when the folder is. */
function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
