/**
 * The published JSON Schema of `automation.json` as a function. `scripts/build.mjs` replaces this file by the compiled code,
 * because the supervisor checks automations while it starts, and Ajv takes 150 ms to load and compile.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import AUTOMATION_SCHEMA from '../../schemas/automation.schema.json' with { type: 'json' };

// The options of the build. Lengths count in UTF-16 units, as those of `LIMITS` do.
const options = { allErrors: true, verbose: true, strict: false, unicode: false, logger: false } as const;
export const validate = new Ajv2020(options).compile(AUTOMATION_SCHEMA);
