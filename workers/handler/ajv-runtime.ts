/** The parts of Ajv that compiled validators ask for; bundled into the actor, which has no packages to load from. */
import ucs2length from 'ajv/dist/runtime/ucs2length.js';
import uri from 'ajv/dist/runtime/uri.js';
import ValidationError from 'ajv/dist/runtime/validation_error.js';
import * as formats from 'ajv-formats/dist/formats.js';

// App code could put its own in their place.
const { hasOwn, keys } = Object;
const { isArray } = Array;

type Members = Record<string, unknown>;

/**
 * Whether two values that came out of JSON are equal, as JSON Schema means it (`const`, `enum`, `uniqueItems`). Ajv's own
 * comparison asks the values for their `constructor`, `valueOf` and `toString`, which in an input are whatever its sender says.
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
    if (!hasOwn(other, name) || !jsonEqual((one as Members)[name], (other as Members)[name])) return false;
  }
  return true;
}

const MODULES: Readonly<Record<string, unknown>> = {
  'ajv/dist/runtime/equal': { default: jsonEqual },
  'ajv/dist/runtime/ucs2length': ucs2length,
  'ajv/dist/runtime/uri': uri,
  'ajv/dist/runtime/validation_error': ValidationError,
  'ajv-formats/dist/formats': formats,
};

/** `require` for the text of `validators.js`. Throws for anything that Ajv's generated code does not need. */
export function ajvRequire(id: string): unknown {
  if (!Object.hasOwn(MODULES, id)) throw new Error(`A validator may not load "${id.slice(0, 80)}".`);
  return MODULES[id];
}
