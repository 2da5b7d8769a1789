/**
 * The published JSON Schema of `app.json` as a function. `scripts/build.mjs` replaces this file by the compiled code: compiling
 * would take a third of the time that a job thread takes to start.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import MANIFEST_SCHEMA from '../../schemas/app.schema.json' with { type: 'json' };

// The options of the build.
const options = { allErrors: true, strict: false } as const;
export const validate = new Ajv2020(options).compile(MANIFEST_SCHEMA);
