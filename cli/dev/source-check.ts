/**
 * Finds in an app's sources what publishing would refuse, before the gateway is asked: a manifest that is not JSON,
 * handlers that do not parse, and handlers that break the rules; and what it would warn of. Shows the lines around a fault.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as others } from 'node:timers/promises';
import { type ErrorBody, type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { KnownModules } from '../../protocol/rules/gates/check-handlers.ts';
import { isTestFile } from '../../protocol/rules/static-files.ts';
import { printable } from '../../protocol/text/printable.ts';
import type { DescribedApp } from '../gateway/descriptions.ts';
import { appReader, type BundleFiles, textOf } from './app-reader.ts';

/** Both count from 1, columns in UTF-16 units. */
type Place = { line: number; column: number };

/** Code that the gateway runs. */
const HANDLERS = /^(?:queries|actions|automations|lib)\/.*\.(?:m?js|ts)$/;
const AUTOMATION = /^automations\/([^/]+)\/automation\.json$/;

/** Parsing blocks everything else. Faults that are not found within this time are found by the rules. */
const BUDGET_MS = 1000;
/** Characters of a line that are shown. */
const WIDTH = 100;

/** Why a text is not JSON, and where, if Node says so; null if it is JSON. */
export function jsonFault(text: string): { reason: string; place: Place | null } | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const { message } = error as Error;
    const position = / in JSON at position (\d+)/.exec(message);
    const isCut = message === 'Unexpected end of JSON input';
    const reason = position === null ? message : message.slice(0, position.index);
    if (position === null && !isCut) return { reason, place: null };
    const before = text.slice(0, isCut ? text.trimEnd().length : Number(position?.[1])).split(/\r\n?|\n/);
    return { reason, place: { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 } };
  }
}

/** The line and the one above it, with a mark below the column; empty when the file has no such line. */
export function excerpt(text: string, { line, column }: Place): string[] {
  const lines = text.split(/\r\n?|\n/);
  if (lines[line - 1] === undefined) return [];
  // If the column is further right, the shown part of all lines moves right too.
  const from = column <= WIDTH ? 0 : column - 1 - WIDTH / 2;
  const show = (part: string): string => printable(part.replaceAll('\t', ' '));
  const shown = (at: number): string => show((lines[at - 1] ?? '').slice(from, from + WIDTH));
  const gutter = String(line).length;
  const row = (label: string | number, content: string): string =>
    `${String(label).padStart(gutter)} │ ${content}`.trimEnd();
  const mark = ' '.repeat(show((lines[line - 1] ?? '').slice(from, column - 1)).length);
  return [...(line > 1 ? [row(line - 1, shown(line - 1))] : []), row(line, shown(line)), row('', `${mark}^`)];
}

/**
 * The error of publishing for the first file that does not parse, with its place; null if all parse that it has time
 * for.
 */
export async function checkSyntax(folder: string, files: string[], ms: number = BUDGET_MS): Promise<ErrorBody | null> {
  const inManifest = files.includes('app.json') ? jsonFault(readFileSync(join(folder, 'app.json'), 'utf8')) : null;
  if (inManifest?.place)
    return faultAt('INVALID_MANIFEST', 'app.json', inManifest.place, `It is not valid JSON: ${inManifest.reason}.`);
  const handlers = files.filter((file) => HANDLERS.test(file) && !file.endsWith('.d.ts') && !isTestFile(file));
  if (handlers.length === 0) return null;
  const sources = await appReader(folder, handlers);
  const { Lines, parseModule, stepsWithin, TookTooLong } = await import('../../protocol/rules/gates/syntax.ts');
  const step = stepsWithin(ms);
  try {
    for (const path of handlers) {
      const source = sources(path);
      if ('refused' in source) continue;
      const fault = source.fault ?? parseModule(source.text, step);
      if ('program' in fault) continue;
      return faultAt('INVALID_HANDLER', path, new Lines(source.text).position(fault.at), fault.message);
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

/**
 * The error that publishing `files` of the app, and `bundles` of packages, would end with; null when its handlers pass,
 * or as soon as `isStale`. Lets other work run meanwhile. `known` keeps the results for unchanged files; `used` gets the files that
 * handlers lead to.
 */
export async function checkRules(
  folder: string,
  known: KnownModules,
  app: DescribedApp,
  files: string[],
  isStale: () => boolean,
  bundles: BundleFiles = new Map(),
  used: Set<string> = new Set(),
): Promise<ErrorBody | null> {
  const { handlerCheck, invalidHandler } = await import('../../protocol/rules/gates/check-handlers.ts');
  const automations = files.flatMap((path) => AUTOMATION.exec(path)?.[1] ?? []);
  const read = await appReader(folder, files, bundles);
  const check = handlerCheck((file) => read(used.add(file) && file), app, automations, { known });
  try {
    for (;;) {
      const { done, value } = check.next();
      if (done) return value.length === 0 ? null : invalidHandler(value).toBody();
      await others();
      if (isStale()) return null;
    }
  } catch (error) {
    if (error instanceof SvcError) return error.toBody();
    throw error;
  }
}

/** What is probably mistyped in `files` of the app, as an upload would warn; `used` as `checkRules` left it. */
export async function checkMistakes(
  folder: string,
  app: DescribedApp,
  files: string[],
  used: ReadonlySet<string>,
): Promise<InputIssue[]> {
  const { nearMisses, unusedHandlers } = await import('../../protocol/rules/near-misses.ts');
  const declaring = files.filter((path) => path === 'app.json' || AUTOMATION.test(path));
  return [
    ...declaring.flatMap((path) => nearMisses(path, textOf(folder, path) ?? '')),
    ...unusedHandlers(files, app, used),
  ].slice(0, LIMITS.inputIssues);
}
