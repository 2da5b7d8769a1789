/**
 * Makes the script with which the queries of a version run in the commons, or says why they cannot (specification, "Commons").
 */
import { Script } from 'node:vm';
import { LIMITS } from '../../protocol/limits.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { type Converted, convertModule, KeptOut } from '../../protocol/rules/gates/commons-module.ts';
import { stepsWithin, TookTooLong } from '../../protocol/rules/gates/syntax.ts';
import { isTypeScript } from '../../protocol/rules/handler-imports.ts';
import type { CommonsFinding, CommonsModule, CommonsScript } from '../../protocol/wire/commons.ts';
import type { ErasedModules } from './handlers.ts';
import { readSource } from './handlers.ts';

/** `code` is the folder of the version, `erased` its TypeScript without types. */
export function commonsScript(
  code: string,
  manifest: Manifest,
  paths: string[],
  erased: ErasedModules,
): CommonsFinding {
  if (manifest.thread === 'own') return { kept: 'thread', detail: 'app.json says "thread": "own".' };
  if (manifest.cache === false) return { kept: 'state', detail: 'app.json says "cache": false.' };
  try {
    return { script: new ScriptMaker(code, erased).make(manifest, new Set(paths)) };
  } catch (error) {
    if (error instanceof KeptOut) return { kept: error.reason, detail: error.message };
    if (error instanceof TookTooLong) return { kept: 'modules', detail: 'Its handlers take too long to read.' };
    if (error instanceof RangeError) return { kept: 'modules', detail: 'Its handlers nest too deeply.' };
    throw error;
  }
}

class ScriptMaker {
  readonly #code: string;
  readonly #erased: ErasedModules;
  readonly #step = stepsWithin(LIMITS.handlerCheckMs);
  /** By path, those under way included, whose exports are not known yet. */
  readonly #modules = new Map<string, CommonsScript['modules'][string] | null>();
  readonly #exported = new Map<string, Set<string>>();
  #bytes = 0;

  constructor(code: string, erased: ErasedModules) {
    this.#code = code;
    this.#erased = erased;
  }

  make({ queries }: Manifest, paths: ReadonlySet<string>): CommonsScript {
    const files: Record<string, string> = {};
    for (const { name } of queries) {
      const file = `queries/${name}${paths.has(`queries/${name}.js`) ? '.js' : '.ts'}`;
      if (!this.#add(file, 0).has('default')) throw new KeptOut('modules', `${file} has no default export.`);
      files[name] = file;
    }
    return { queries: files, modules: Object.fromEntries(this.#modules) as CommonsScript['modules'] };
  }

  /** The names that a module exports, with all that it needs added. */
  #add(file: string, depth: number): Set<string> {
    const known = this.#exported.get(file);
    if (known !== undefined) return known;
    if (this.#modules.has(file)) throw new KeptOut('modules', `${file} imports itself, or what imports it.`);
    if (depth > LIMITS.commonsModuleDepth) throw new KeptOut('modules', `${file} is imported through too many others.`);
    this.#modules.set(file, null);
    const text = this.#read(file);
    this.#bytes += text.length;
    if (this.#bytes > LIMITS.commonsScriptBytes) throw new KeptOut('modules', 'Its handlers import too much.');
    const exported = file.endsWith('.json') ? this.#json(file, text) : this.#module(file, text, depth);
    this.#exported.set(file, exported);
    return exported;
  }

  #json(file: string, json: string): Set<string> {
    try {
      JSON.parse(json);
    } catch {
      throw new KeptOut('modules', `${file} is not valid JSON.`);
    }
    this.#modules.set(file, { json });
    return new Set(['default']);
  }

  #module(file: string, text: string, depth: number): Set<string> {
    const converted = convertModule(file, text, this.#step);
    const { module } = converted;
    assertCompiles(file, module);
    for (const needed of module.needs) this.#add(needed, depth + 1);
    for (const [from, name] of module.imports) this.#assertExported(file, from, name);
    this.#modules.set(file, module);
    return this.#all(file, converted);
  }

  #all(file: string, { module, exported }: Converted): Set<string> {
    const all = new Set(exported);
    for (const [name, from, imported] of module.again) {
      if (name !== '*') {
        this.#assertExported(file, from, imported);
        all.add(name);
        continue;
      }
      for (const one of this.#exported.get(from) as Set<string>) {
        if (one === 'default' || exported.has(one)) continue;
        // Two of one name cancel each other out.
        if (all.has(one)) throw new KeptOut('modules', `${file} exports "${one}" twice.`);
        all.add(one);
      }
    }
    return all;
  }

  #assertExported(file: string, from: string, name: string): void {
    if (name === '*' || this.#exported.get(from)?.has(name)) return;
    throw new KeptOut('modules', `${file} imports "${name}", which ${from} does not export.`);
  }

  #read(file: string): string {
    const erased = isTypeScript(file) ? this.#erased.get(file) : undefined;
    const source = erased ?? readSource(this.#code, file);
    if ('refused' in source) throw new KeptOut('modules', `${file} ${source.refused}.`);
    if (source.fault !== undefined || (erased === undefined && isTypeScript(file)))
      throw new KeptOut('modules', `The types of ${file} cannot be erased.`);
    return source.text;
  }
}

/** What is a module may be no body of a function: the same name twice, for example. */
function assertCompiles(file: string, { body, params }: CommonsModule): void {
  try {
    new Script(`(function (${params.join()}) { "use strict";\n${body}\n})`);
  } catch {
    throw new KeptOut('modules', `${file} cannot be a function.`);
  }
}
