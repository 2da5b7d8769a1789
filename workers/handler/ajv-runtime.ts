/** The parts of Ajv that compiled validators ask for; bundled into the actor, which has no packages to load from. */
import ucs2length from 'ajv/dist/runtime/ucs2length.js';
import uri from 'ajv/dist/runtime/uri.js';
import ValidationError from 'ajv/dist/runtime/validation_error.js';
import * as formats from 'ajv-formats/dist/formats.js';
import { jsonEqual } from './json-equal.ts';

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
