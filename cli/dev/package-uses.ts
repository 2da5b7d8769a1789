/** Finds which packages the handlers of an app folder import, and which of their exports. */
import type { ReadHandler } from '../../protocol/rules/gates/check-handlers.ts';
import type { LocalImport } from '../../protocol/rules/gates/module-names.ts';
import { isOfPackage } from '../../protocol/rules/handler-imports.ts';
import { isTestFile } from '../../protocol/rules/static-files.ts';
import { appReader, textOf } from './app-reader.ts';

/** In the app; line and column count from 1. */
export type SourcePlace = { path: string; line: number; column: number };

/** One package, or one path of it, as handlers import it: the used exports, with the first place of each. */
export type PackageUse = {
  specifier: string;
  /** The path of its bundle in the app. */
  file: string;
  at: SourcePlace;
  names: Map<string, SourcePlace>;
  /** The place that imports all of it, so that the used names are unknown. */
  whole: SourcePlace | null;
};

const MODULE = /\.(?:m?js|ts)$/;
const HANDLER = /^(?:(?:queries|actions)\/[^/]+|automations\/[^/]+\/handler)\.(?:js|ts)$/;
/** Matches every import of a package, and some other texts. */
const MAYBE = /\b(?:from|import)\s*\(?\s*["'`][a-z0-9@~]/i;

/** By file and line of the first import, in the order of `files`, the paths of the app's files. Modules that do not parse count as empty. */
export async function findPackageUses(folder: string, files: string[]): Promise<PackageUse[]> {
  const isModule = (file: string): boolean =>
    MODULE.test(file) && !file.endsWith('.d.ts') && !isOfPackage(file) && !isTestFile(file);
  const modules = files.filter(isModule);
  // Most apps import none, and need no parser.
  if (!modules.some((file) => MAYBE.test(textOf(folder, file) ?? ''))) return [];
  return follow(
    await appReader(folder, files),
    modules.filter((file) => HANDLER.test(file)),
  );
}

async function follow(read: ReadHandler, handlers: string[]): Promise<PackageUse[]> {
  const { Lines, parseModule } = await import('../../protocol/rules/gates/syntax.ts');
  const { importsOf } = await import('../../protocol/rules/gates/module-names.ts');
  const uses = new Map<string, PackageUse>();
  const seen = new Set(handlers);
  for (const path of seen) {
    const source = MODULE.test(path) ? read(path) : { refused: '' };
    const parsed = 'refused' in source || source.fault !== undefined ? null : parseModule(source.text, () => {});
    if (parsed === null || 'refused' in source || !('program' in parsed)) continue;
    const lines = new Lines(source.text);
    for (const found of importsOf(path, parsed.program).imports) {
      if (!isOfPackage(found.file)) seen.add(found.file);
      else if (!found.specifier.startsWith('.')) addUse(uses, found, (offset) => ({ path, ...lines.position(offset) }));
    }
  }
  return [...uses.values()];
}

function addUse(
  uses: Map<string, PackageUse>,
  { specifier, file, at, names, whole }: LocalImport,
  placeOf: (offset: number) => SourcePlace,
): void {
  const use = uses.get(file) ?? { specifier, file, at: placeOf(at), names: new Map(), whole: null };
  uses.set(file, use);
  if (whole) use.whole ??= placeOf(at);
  for (const { name, at } of names) if (!use.names.has(name)) use.names.set(name, placeOf(at));
}
