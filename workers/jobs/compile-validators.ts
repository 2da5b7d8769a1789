/**
 * Compiles the schemas of a version's tools and automations to one CommonJS text (Ajv standalone code), so that no actor loads
 * Ajv. Input is checked unchanged: no defaults, no coercion.
 */
import { createHash } from 'node:crypto';
import { createContext, Script } from 'node:vm';
import { _, Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import formats from 'ajv-formats';
import { automationFault, invalidAutomation } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { JsonSchema, Manifest } from '../../protocol/manifest.ts';
import { manifestIssue } from '../../protocol/rules/manifest-check.ts';
import { validate as isSchema } from '../../protocol/rules/meta-schema.ts';
import { loadValidators } from '../handler/load-validators.ts';
import type { Validate, Validators } from '../handler/validators.ts';
import { timeLimited } from './control.ts';
import { nameFault } from './schema-names.ts';
import type { CheckedAutomation } from './uploaded-automations.ts';

const DRAFT = 'https://json-schema.org/draft/2020-12/schema';

/** What `validators.js` exports. */
const LISTS = ['queries', 'actions', 'automations'] as const;

/** Inputs that every validator must be able to check at once. */
const PROBES: readonly unknown[] = [{}, [], '', 0, true, null];

/** Raise it when the same schemas compile to another text, as with a new Ajv: stored texts are then not reused. */
const FORM = 3;

/** A schema that is compiled to a function, and the error of a version that has it when it cannot be used. */
type NamedSchema = { list: keyof Validators; name: string; schema: JsonSchema; fail: Fail };
type Fail = (field: string, message: string) => SvcError;

/**
 * The text of `validators.js`: `exports.queries[name]` and `exports.actions[name]` for every tool with an `input`, and
 * `exports.automations[id]` for every automation with an `outputSchema`. Throws `INVALID_MANIFEST` or `INVALID_AUTOMATION`
 * when a schema does not compile or cannot be used.
 */
export function compileValidators(manifest: Manifest, automations: CheckedAutomation[] = []): string {
  return timeLimited((about) => compileAll(manifest, automations, about));
}

/** `about` gets the error for the case that the next step never ends and the thread is killed. */
function compileAll(manifest: Manifest, automations: CheckedAutomation[], about: (error: SvcError) => void): string {
  const parts = ['"use strict";', HELPERS, ...LISTS.map((list) => `exports.${list} = {};`)];
  const compiler = new Compiler();
  const schemas = [...schemasOfTools(manifest, compiler, about), ...schemasOfOutputs(automations)];
  for (const { list, name, schema, fail } of schemas) {
    about(tooSlow(fail));
    const code = bounded(compiler.compile(schema, fail));
    parts.push(
      `exports.${list}[${JSON.stringify(name)}] = (function (module) {`,
      code,
      'return module.exports;',
      '})({});',
    );
  }
  const text = parts.join('\n');
  probe(text, schemas, about);
  return `${madeOf(manifest, automations, text)}\n${text}`;
}

/** The same; `before`, the text of another version or null, is taken when it was compiled from the same schemas. */
export function validatorsLike(before: string | null, manifest: Manifest, automations: CheckedAutomation[]): string {
  const text = before?.slice(before.indexOf('\n') + 1) ?? '';
  const isSame = before !== null && before === `${madeOf(manifest, automations, text)}\n${text}`;
  return isSame ? before : compileValidators(manifest, automations);
}

/**
 * Identifies the schemas and the compiler of a text, including schemas that are only checked, and the text, which may be
 * damaged.
 */
function madeOf(manifest: Manifest, automations: CheckedAutomation[], text: string): string {
  const tools = (['queries', 'actions'] as const).map((list) =>
    manifest[list].map(({ name, input, output }) => ({ name, input, output })),
  );
  const outputs = automations.map(({ id, manifest: { outputSchema } }) => ({ id, outputSchema }));
  return `// Schemas ${hashOf(JSON.stringify({ FORM, HELPERS, tools, outputs }))} ${hashOf(text)}`;
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function tooSlow(fail: Fail): SvcError {
  return fail('', `takes more than ${LIMITS.schemasMs / 1000} s to compile, with those before it; make it simpler`);
}

function schemasOfTools(manifest: Manifest, compiler: Compiler, about: (error: SvcError) => void): NamedSchema[] {
  const schemas: NamedSchema[] = [];
  for (const list of ['queries', 'actions'] as const) {
    for (const [i, { name, input, output }] of manifest[list].entries()) {
      const failAt =
        (member: string): Fail =>
        (field, message) =>
          manifestIssue(`${list}[${i}].${member}${field}`, message, 'schema');
      if (output !== undefined) {
        about(tooSlow(failAt('output')));
        compiler.compile(output, failAt('output'));
      }
      if (input !== undefined) schemas.push({ list, name, schema: input, fail: failAt('input') });
    }
  }
  return schemas;
}

function schemasOfOutputs(automations: CheckedAutomation[]): NamedSchema[] {
  return automations.flatMap(({ id, manifest: { outputSchema } }) => {
    if (outputSchema === undefined) return [];
    const fail: Fail = (field, message) => {
      const issue = { code: 'invalid_output_schema', path: `outputSchema${field}`, message } as const;
      return invalidAutomation([automationFault(id, issue)]);
    };
    return [{ list: 'automations', name: id, schema: outputSchema, fail }];
  });
}

/** Compiles the schemas of one version: to make an Ajv takes as long as to compile a schema. */
class Compiler {
  readonly #ajv: Ajv2020;
  /** What it knows by an `$id` of its own. */
  readonly #known: ReadonlySet<string>;
  /** Of all schemas so far: what one refers to may have been compiled for another. */
  readonly #comments = new Set<string>();

  constructor() {
    this.#ajv = new Ajv2020({
      strict: false,
      allErrors: true,
      // Inherited properties such as "constructor" do not count.
      ownProperties: true,
      validateSchema: false,
      logger: false,
      code: {
        source: true,
        // For `bounded`.
        lines: true,
        // Called before Ajv runs what it generated.
        process: (code, env) => {
          const comment = sourceComment(env?.schema);
          if (comment !== null) this.#comments.add(comment);
          return without(code, this.#comments);
        },
      },
    });
    formats.default(this.#ajv, { keywords: false });
    this.#known = new Set(Object.keys(this.#ajv.refs));
  }

  compile(schema: JsonSchema, fail: Fail): string {
    checkDraft(schema, fail);
    try {
      checkText(schema, fail);
      if (!isSchema(schema)) throw new Error(this.#ajv.errorsText(isSchema.errors, { dataVar: 'the schema' }));
      return without(standalone.default(this.#ajv, this.#ajv.compile(schema)), this.#comments);
    } catch (error) {
      if (error instanceof SvcError) throw error;
      const why = error instanceof RangeError ? 'its references or its depth are too much' : (error as Error).message;
      throw fail('', `is not a usable JSON Schema: ${why}`);
    } finally {
      // Another schema may have the same `$id`s.
      for (const id of Object.keys(this.#ajv.refs)) if (!this.#known.has(id)) delete this.#ajv.refs[id];
    }
  }
}

function checkText(schema: JsonSchema, fail: Fail): void {
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes > LIMITS.schemaBytes) throw fail('', `has ${bytes} bytes; a schema may have ${LIMITS.schemaBytes}`);
  const fault = nameFault(schema);
  if (fault !== null) throw fail(fault.field, fault.message);
}

/** What Ajv writes of a schema's `$id` into the code, where the text could end the comment; null when it writes none. */
function sourceComment(schema: unknown): string | null {
  const id = typeof schema === 'object' && schema !== null ? (schema as { $id?: unknown }).$id : undefined;
  return id ? String(_`/*# sourceURL=${id as string} */`) : null;
}

/** The code without these comments. Quotes in strings are escaped, so only comments match. */
function without(code: string, comments: Iterable<string>): string {
  let text = code;
  for (const comment of comments) text = text.replaceAll(comment, '');
  if (text.includes('/*# sourceURL="')) throw new Error('its code would hold text of the schema');
  return text;
}

function checkDraft(schema: JsonSchema, fail: Fail): void {
  if (typeof schema !== 'object') return;
  const { $schema, $async } = schema;
  if ($schema !== undefined && $schema !== DRAFT && $schema !== `${DRAFT}#`) {
    throw fail('.$schema', `must be ${DRAFT}, or absent`);
  }
  if ($async !== undefined) throw fail('.$async', 'is not supported');
}

/**
 * Collects all failures but keeps only as many as are ever shown: 500,000 wrong items in a hostile input would else fill the
 * actor's memory. The lists keep their lengths, by which the generated code counts.
 */
const HELPERS = `const keep = (list, error) => { list.push(list.length < ${LIMITS.inputIssues} ? error : undefined); };
const keepAll = (list, errors) => { for (const error of errors) keep(list, error); return list; };`;

/** Only whole statements at the start of a line: text of the schema has no line breaks in the code, so it is never changed. */
function bounded(code: string): string {
  return code
    .replaceAll(/^vErrors\.push\((err\d+)\);$/gm, 'keep(vErrors, $1);')
    .replaceAll(
      /^(vErrors = vErrors === null \? ([\w.]+)\.errors : )vErrors\.concat\(\2\.errors\);$/gm,
      '$1keepAll(vErrors, $2.errors);',
    );
}

/** Runs the compiled code, to find endless references and exploding schemas now, not in a call. */
function probe(text: string, schemas: NamedSchema[], about: (error: SvcError) => void): void {
  const validators = loadValidators(text);
  let probed: Validate | undefined;
  const run = (): void => {
    for (const input of PROBES) probed?.(input);
  };
  // Only what a script runs can have a limit of time.
  const script = new Script('run()');
  const context = createContext({ run });
  for (const { list, name, fail } of schemas) {
    probed = validators[list][name];
    if (probed === undefined) continue;
    about(tooSlow(fail));
    try {
      script.runInContext(context, { timeout: LIMITS.schemaProbeMs });
    } catch (error) {
      throw fail('', `cannot be used, for it ${describe(error)}`);
    }
  }
}

function describe(error: unknown): string {
  if ((error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    return 'takes too long to check an empty input';
  if (error instanceof RangeError) return 'refers to itself without end';
  return `fails with "${(error as Error).message}"`;
}
