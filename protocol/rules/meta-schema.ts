/**
 * The JSON Schema of JSON Schemas as a function. `scripts/build.mjs` replaces this file by the compiled code: compiling would take half
 * of the time in which the first version of a job thread has its schemas checked.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

// As in the build.
const ajv = new Ajv2020({ strict: false });
formats.default(ajv, { keywords: false });
export const validate = ajv.compile({ $ref: 'https://json-schema.org/draft/2020-12/schema' });
