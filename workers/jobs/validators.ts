/**
 * Compiles the schemas of a version's tools to one CommonJS text (Ajv standalone code), so that no actor loads Ajv. Input is
 * judged as it came: no defaults, no coercion.
 */
import { runInNewContext } from 'node:vm';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import formats from 'ajv-formats';
import { LIMITS } from '../../protocol/limits.ts';
import type { JsonSchema, Manifest } from '../../protocol/manifest.ts';
import { manifestIssue } from '../../protocol/manifest-check.ts';
import { loadValidators } from '../handler/validators.ts';

const DRAFT = 'https://json-schema.org/draft/2020-12/schema';

/** Inputs that every validator must be able to judge at once. */
const PROBES: readonly unknown[] = [{}, [], '', 0, true, null];

/** Judges schemas themselves; made once, for its own compilation is slow. */
const metaSchema = new Ajv2020({ strict: false, logger: false });
formats.default(metaSchema, { keywords: false });

/**
 * The text of `validators.js`: `exports.queries[name]` and `exports.actions[name]` for every tool with an `input`. Throws
 * `INVALID_MANIFEST` when an `input` or `output` does not compile or cannot be used.
 */
export function compileValidators(manifest: Manifest): string {
  const parts = ['"use strict";', HELPERS, 'exports.queries = {};', 'exports.actions = {};'];
  for (const list of ['queries', 'actions'] as const) {
    for (const [i, tool] of manifest[list].entries()) {
      if (tool.output !== undefined) compile(tool.output, `${list}[${i}].output`);
      if (tool.input === undefined) continue;
      const code = bounded(compile(tool.input, `${list}[${i}].input`));
      const name = JSON.stringify(tool.name);
      parts.push(`exports.${list}[${name}] = (function (module) {`, code, 'return module.exports;', '})({});');
    }
  }
  const text = parts.join('\n');
  probe(text, manifest);
  return text;
}

/** An Ajv of its own for each schema: equal `$id`s never meet, and nothing is kept. */
function compile(schema: JsonSchema, path: string): string {
  checkDraft(schema, path);
  try {
    if (!metaSchema.validateSchema(schema))
      throw new Error(metaSchema.errorsText(metaSchema.errors, { dataVar: 'the schema' }));
    const ajv = new Ajv2020({
      strict: false,
      allErrors: true,
      // `{}` has no property "constructor", whatever it inherits.
      ownProperties: true,
      validateSchema: false,
      logger: false,
      code: { source: true },
    });
    formats.default(ajv, { keywords: false });
    return standalone.default(ajv, ajv.compile(schema));
  } catch (error) {
    const why = error instanceof RangeError ? 'its references or its depth are too much' : (error as Error).message;
    throw manifestIssue(path, `is not a usable JSON Schema: ${why}`, 'schema');
  }
}

function checkDraft(schema: JsonSchema, path: string): void {
  if (typeof schema !== 'object') return;
  const { $schema, $async } = schema;
  if ($schema !== undefined && $schema !== DRAFT && $schema !== `${DRAFT}#`) {
    throw manifestIssue(`${path}.$schema`, `must be ${DRAFT}, or absent`, 'const');
  }
  if ($async !== undefined) throw manifestIssue(`${path}.$async`, 'is not supported', 'const');
}

/**
 * Collects all failures but keeps only as many as are ever shown: 500,000 wrong items in a hostile input would else fill the
 * actor's memory. The lists keep their lengths, by which the generated code counts.
 */
const HELPERS = `const keep = (list, error) => { list.push(list.length < ${LIMITS.inputIssues} ? error : undefined); };
const keepAll = (list, errors) => { for (const error of errors) keep(list, error); return list; };`;

function bounded(code: string): string {
  return code
    .replaceAll(/\bvErrors\.push\((err\d+)\)/g, 'keep(vErrors, $1)')
    .replaceAll(/\bvErrors\.concat\((\w+)\.errors\)/g, 'keepAll(vErrors, $1.errors)');
}

/** Runs what was compiled: a schema that refers to itself without end, or explodes, is found now and not in a call. */
function probe(text: string, manifest: Manifest): void {
  const validators = loadValidators(text);
  for (const list of ['queries', 'actions'] as const) {
    for (const [i, tool] of manifest[list].entries()) {
      const validate = validators[list][tool.name];
      if (validate === undefined) continue;
      const run = (): void => {
        for (const input of PROBES) validate(input);
      };
      try {
        runInNewContext('run()', { run }, { timeout: LIMITS.schemaProbeMs });
      } catch (error) {
        throw manifestIssue(`${list}[${i}].input`, `cannot be used, for it ${describe(error)}`, 'schema');
      }
    }
  }
}

function describe(error: unknown): string {
  if ((error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    return 'takes too long to check an empty input';
  if (error instanceof RangeError) return 'refers to itself without end';
  return `fails with "${(error as Error).message}"`;
}
