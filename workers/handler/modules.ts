/**
 * Loads handlers: ES modules that import only files of their version's folder; TypeScript without its types, at the same lines
 * and columns. Stacks and messages show their path inside the folder (`queries/list.js`).
 */
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Module, Script, SourceTextModule, SyntheticModule } from 'node:vm';
import { BUNDLERS, isOfPackage, isTypeScript, resolve } from '../../protocol/rules/handler-imports.ts';

const OPENING = 'async () => { "use strict";\n';

/** A handler's default export. */
export type Handler = (args: object) => unknown;

/** The handlers of a version. */
export type Handlers = Pick<Modules, 'handler'>;

export class Modules {
  readonly #root: string;
  readonly #erased: string;
  readonly #modules = new Map<string, Module>();
  /** A failure is kept, because the files of a version do not change. */
  readonly #handlers = new Map<string, Handler | Promise<Handler>>();
  /** Graphs are linked one after the other, so that none sees a module that another is still linking. */
  #linked: Promise<unknown> = Promise.resolve();

  /** `root` is the version's folder, `erased` that of its TypeScript without types. */
  constructor(root: string, erased: string) {
    this.#root = root;
    this.#erased = erased;
  }

  /**
   * The default export of the handler with this name, its path without the ending (`queries/list`); at once when it is loaded.
   * Rejects with an error that names the file.
   */
  handler(name: string): Handler | Promise<Handler> {
    const known = this.#handlers.get(name);
    if (known !== undefined) return known;
    const loading = this.#loadHandler(name);
    this.#handlers.set(name, loading);
    loading.then(
      (handler) => this.#handlers.set(name, handler),
      () => {},
    );
    return loading;
  }

  async #loadHandler(name: string): Promise<Handler> {
    const has = (ending: string): boolean => existsSync(join(this.#root, name + ending));
    const file = `${name}${!has('.js') && has('.ts') ? '.ts' : '.js'}`;
    const module = await this.#load(file, null);
    const { default: handler } = module.namespace as { default?: unknown };
    if (typeof handler !== 'function') throw new Error(`${file} must export default an async function.`);
    return handler as Handler;
  }

  async #load(file: string, importer: string | null): Promise<Module> {
    const module = this.#modules.get(file) ?? this.#graph(file, importer);
    await this.#link(module);
    if (module.status === 'errored') throw asLoadError(file, module.error);
    try {
      await module.evaluate();
    } catch (error) {
      throw asLoadError(file, error);
    }
    return module;
  }

  #link(module: Module): Promise<void> {
    const linking = this.#linked.then(async () => {
      if (module.status !== 'unlinked') return;
      await module.link((specifier, { identifier }) => this.#modules.get(resolve(specifier, identifier)) as Module);
    });
    this.#linked = linking.catch(() => {});
    return linking.catch((error: unknown) => {
      throw asLoadError(module.identifier, error);
    });
  }

  /** Reads and parses `file` and all that it imports, to find every error before anything is linked. */
  #graph(file: string, importer: string | null): Module {
    const added = new Map<string, Module>();
    const add = (name: string, from: string | null): void => {
      if (this.#modules.has(name) || added.has(name)) return;
      const module = this.#parse(name, from);
      added.set(name, module);
      if (!(module instanceof SourceTextModule)) return;
      for (const specifier of module.dependencySpecifiers) add(resolve(specifier, name), name);
    };
    add(file, importer);
    for (const [name, module] of added) this.#modules.set(name, module);
    return added.get(file) as Module;
  }

  #parse(file: string, importer: string | null): Module {
    const text = this.#read(file, importer);
    if (file.endsWith('.json')) return jsonModule(file, text);
    try {
      return new SourceTextModule(text, {
        identifier: file,
        importModuleDynamically: (specifier) => this.#load(resolve(specifier, file), file),
      });
    } catch (error) {
      const at = locateSyntaxError(text, file, error as Error);
      throw new SyntaxError(`${file}${at} does not parse: ${(error as Error).message}`);
    }
  }

  #read(file: string, importer: string | null): string {
    const from = importer === null ? '' : `${importer} imports it: `;
    let path = this.#root;
    try {
      for (const segment of file.split('/')) {
        path = join(path, segment);
        if (lstatSync(path).isSymbolicLink())
          throw new Error(`${from}${file} is, or is behind, a symbolic link, which is not allowed.`);
      }
      return isTypeScript(file) ? this.#readErased(file, from) : readFileSync(path, 'utf8');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
      const advice = isMissing && isOfPackage(file) ? `; ${BUNDLERS} bundle packages` : '';
      throw new Error(`${from}${file} ${isMissing ? 'does not exist' : `cannot be read (${code})`}${advice}.`);
    }
  }

  #readErased(file: string, from: string): string {
    const path = join(this.#erased, file);
    const fault = join(path, 'fault');
    if (existsSync(fault)) throw new SyntaxError(`${file}${readFileSync(fault, 'utf8')}`);
    if (existsSync(path)) return readFileSync(path, 'utf8');
    throw new Error(`${from}the types of ${file} are not erased: no import names it in plain text.`);
  }
}

function jsonModule(file: string, text: string): Module {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`${file} is not valid JSON: ${(error as Error).message}`);
  }
  return new SyntheticModule(
    ['default'],
    function (this: SyntheticModule) {
      this.setExport('default', value);
    },
    { identifier: file },
  );
}

/** The error of linking or evaluating a module, prefixed with the handler's name. */
function asLoadError(file: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  if (message.startsWith(file)) return error as Error;
  const loadError = new Error(`${file} failed to load: ${message}`, { cause: error });
  if (error instanceof Error && error.stack !== undefined) loadError.stack = error.stack;
  return loadError;
}

/**
 * Where a module does not parse: `:line:column` counted from 1, or nothing. Node tells the place only for a `vm.Script`, which knows
 * no `import` and `export`; so the text is parsed again as a script, with those words replaced by others of the same length.
 * Says nothing when that finds another error.
 */
function locateSyntaxError(text: string, file: string, error: Error): string {
  const script = text
    .replace(/^([ \t]*)export default\b/gm, '$1_=            ')
    .replace(/^([ \t]*)export (?=(?:async|class|const|function|let|var)\b)/gm, '$1       ')
    .replace(/^[ \t]*(?:import|export)\b[^;'"()]*(?:'[^'\n]*'|"[^"\n]*")[^\n;]*;?/gm, blank)
    .replace(/^[ \t]*export[ \t]*\{[^}]*\};?/gm, blank);
  try {
    new Script(`${OPENING}${script}\n}`, { filename: file, lineOffset: -1 });
  } catch (again) {
    const { message, stack = '' } = again as Error;
    const [first = '', , marker = ''] = stack.split('\n');
    const line = first.startsWith(`${file}:`) ? first.slice(file.length) : '';
    if (message === error.message && line !== '') return `${line}:${marker.indexOf('^') + 1}`;
  }
  return '';
}

function blank(statement: string): string {
  return statement.replace(/[^\n]/g, ' ');
}
