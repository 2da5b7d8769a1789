/** Loads the validators that activation compiled (`validators.js`). */
import { compileFunction } from 'node:vm';
import ucs2length from 'ajv/dist/runtime/ucs2length.js';
import uri from 'ajv/dist/runtime/uri.js';
import ValidationError from 'ajv/dist/runtime/validation_error.js';
import * as formats from 'ajv-formats/dist/formats.js';
import type { Validate, Validators } from './validators.ts';

// App code could replace them.
const { hasOwn, keys } = Object;
const { isArray } = Array;

/** Evaluates the text of `validators.js`, which is CommonJS. */
export function loadValidators(code: string): Validators {
  const module: { exports: Partial<Validators> } = { exports: {} };
  compileFunction(code, ['exports', 'require', 'module'], { filename: 'validators.js' })(
    module.exports,
    ajvRequire,
    module,
  );
  const { queries = {}, actions = {}, automations = {} } = module.exports;
  return { queries, actions, automations };
}

/** Where the code of one schema begins; what a schema says has no line of its own. */
const EACH = /^(?=exports\.\w+\[".*"\] = \(function \(module\) \{$)/m;
const QUERY = /^exports\.queries\[(".*")\]/;

/**
 * Those of queries, each compiled when it is first used: most calls of a quiet app are its first one. Only for where no app code runs,
 * which could replace what a validator keeps of the language.
 */
export function lazyValidators(code: string): Validators['queries'] {
  const [head, ...each] = code.split(EACH) as [string, ...string[]];
  const { queries } = loadValidators(head);
  for (const one of each) {
    const [, quoted] = QUERY.exec(one) ?? [];
    if (quoted === undefined) continue;
    const name = JSON.parse(quoted) as string;
    queries[name] = whenUsed(() => loadValidators(head + one).queries[name] as Validate);
  }
  return queries;
}

function whenUsed(load: () => Validate): Validate {
  let loaded: Validate | undefined;
  const validate: Validate = (input) => {
    loaded ??= load();
    const isValid = loaded(input);
    validate.errors = loaded.errors ?? null;
    return isValid;
  };
  return validate;
}

/**
 * Whether two JSON values are equal in the sense of JSON Schema (`const`, `enum`, `uniqueItems`). Ajv's own comparison calls the
 * `constructor`, `valueOf` and `toString` of the values, which the sender of an input chooses.
 */
function jsonEqual(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (isArray(one) || isArray(other)) {
    if (!isArray(one) || !isArray(other) || one.length !== other.length) return false;
    for (let i = 0; i < one.length; i++) if (!jsonEqual(one[i], other[i])) return false;
    return true;
  }
  const names = keys(one);
  if (names.length !== keys(other).length) return false;
  for (const name of names) {
    if (
      !hasOwn(other, name) ||
      !jsonEqual((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name])
    )
      return false;
  }
  return true;
}

/** What compiled validators require; bundled into the actor, which has no packages to load from. */
const MODULES: Readonly<Record<string, unknown>> = {
  'ajv/dist/runtime/equal': { default: jsonEqual },
  'ajv/dist/runtime/ucs2length': ucs2length,
  'ajv/dist/runtime/uri': uri,
  'ajv/dist/runtime/validation_error': ValidationError,
  'ajv-formats/dist/formats': formats,
};

function ajvRequire(id: string): unknown {
  if (!hasOwn(MODULES, id)) throw new Error(`A validator may not load "${id.slice(0, 80)}".`);
  return MODULES[id];
}
