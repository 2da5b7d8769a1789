/** Loads the queries of an app from its script (specification, "Commons"). */
import type { CommonsModule, CommonsScript } from '../../protocol/wire/commons.ts';
import type { Handler, Handlers } from '../handler/modules.ts';
import type { Given } from './given.ts';
import { leave } from './leaving.ts';

type Exports = Record<string, unknown>;

const QUERY = 'queries/';

// App code could replace them.
const { parse } = JSON;
const { assign, create, defineProperty, entries, freeze, hasOwn } = Object;

export class ScriptModules implements Handlers {
  readonly #script: CommonsScript;
  readonly #compile: Given['compile'];
  readonly #exports = new Map<string, Exports>();

  /** `script` is JSON text. Throws where it is none, or another. */
  constructor(script: string, compile: Given['compile']) {
    const { queries, modules } = (parse(script) ?? {}) as Partial<CommonsScript>;
    if (queries === undefined || modules === undefined) throw new Error('Its script for the commons is damaged.');
    this.#script = { queries, modules };
    this.#compile = compile;
  }

  /** Of queries only. What does not load is tried again in a thread, which tells why. */
  handler(name: string): Handler {
    const tool = name.slice(QUERY.length);
    if (!hasOwn(this.#script.queries, tool)) leave('modules', `${name} is not in its script.`);
    const file = this.#script.queries[tool] as string;
    try {
      const handler = this.#load(file).default;
      if (typeof handler === 'function') return handler as Handler;
    } catch (error) {
      leave('modules', `${file} does not load: ${String((error as Error)?.message).slice(0, 200)}`);
    }
    return leave('modules', `${file} exports no function.`);
  }

  #load(file: string): Exports {
    const known = this.#exports.get(file);
    if (known !== undefined) return known;
    const module = this.#script.modules[file];
    if (module === undefined) throw new Error(`${file} is missing`);
    const exports: Exports = create(null);
    if ('json' in module) exports.default = parse(module.json);
    else this.#run(file, module, exports);
    this.#exports.set(file, exports);
    return exports;
  }

  #run(file: string, { body, params, imports, again, needs }: CommonsModule, exports: Exports): void {
    for (const needed of needs) this.#load(needed);
    const run = this.#compile(body, params, file);
    const given: unknown[] = imports.map(([from, name]) => this.#valueOf(from, name));
    given.push((more: object) => {
      assign(exports, more);
    });
    run(...given);
    for (const [name, from, imported] of again) {
      if (name === '*') {
        for (const [key, value] of entries(this.#load(from)))
          if (key !== 'default' && !hasOwn(exports, key)) exports[key] = value;
      } else exports[name] = this.#valueOf(from, imported);
    }
  }

  #valueOf(file: string, name: string): unknown {
    const exports = this.#load(file);
    return name === '*' ? namespaceOf(exports) : exports[name];
  }
}

/** As `import * as` gives it. */
function namespaceOf(exports: Exports): object {
  const namespace: Exports = create(null);
  for (const [name, value] of entries(exports).sort(([a], [b]) => (a < b ? -1 : 1))) namespace[name] = value;
  defineProperty(namespace, Symbol.toStringTag, { value: 'Module' });
  return freeze(namespace);
}
