/** Checks inputs, and what automations answer, with the validators that activation compiled (`validators.js` in the version's prepared folder). */
import { compileFunction } from 'node:vm';
import { type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ajvRequire } from './ajv-runtime.ts';

/** What Ajv reports of one failing value. */
type SchemaError = { instancePath: string; keyword: string; message?: string; params?: Record<string, unknown> };
type Validate = ((input: unknown) => boolean) & { errors?: SchemaError[] | null };

/** Validators by tool name; a tool without a schema has none and takes any object. Those of automations judge their output. */
export type Validators = Record<'queries' | 'actions' | 'automations', Record<string, Validate>>;

/** Runs the text of `validators.js`, CommonJS of our own making. */
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

/** Throws `INVALID_INPUT` with the first failing value in `path` and up to `LIMITS.inputIssues` of them in `issues`. */
export function checkInput(validators: Record<string, Validate>, tool: string, input: unknown): void {
  const validate = Object.hasOwn(validators, tool) ? validators[tool] : undefined;
  if (validate === undefined) {
    if (typeof input === 'object' && input !== null && !Array.isArray(input)) return;
    throw invalid([{ path: '', message: 'must be object', keyword: 'type' }]);
  }
  const issues = faults(validate, input);
  if (issues !== null) throw invalid(issues);
}

/**
 * Throws `HANDLER_ERROR` with the first failing value in `path`, and the others in `issues`. Without a schema all is well, and
 * `output` is not asked for the value.
 */
export function checkOutput(validators: Record<string, Validate>, automation: string, output: () => unknown): void {
  const validate = Object.hasOwn(validators, automation) ? validators[automation] : undefined;
  const issues = validate === undefined ? null : faults(validate, output());
  if (issues === null) return;
  const { path, message } = firstOf(issues);
  throw new SvcError('HANDLER_ERROR', `output${path} ${message}`, { path, issues });
}

/** What the schema has against the value; null when it takes it. */
function faults(validate: Validate, value: unknown): InputIssue[] | null {
  try {
    if (validate(value)) return null;
  } catch (error) {
    // A schema that refers to itself goes as deep as its input does, and the stack does not.
    if (!(error instanceof RangeError)) throw error;
    return [{ path: '', message: 'nests too deeply to be checked', keyword: 'depth' }];
  }
  return (validate.errors ?? []).slice(0, LIMITS.inputIssues).map(toIssue);
}

function toIssue(error: SchemaError): InputIssue {
  return { path: error.instancePath, message: explain(error), keyword: error.keyword };
}

/** Ajv's message, with the name or values it leaves out. */
function explain({ keyword, message = `does not match "${keyword}"`, params = {} }: SchemaError): string {
  switch (keyword) {
    case 'additionalProperties':
      return `must not have the property '${String(params.additionalProperty)}'`;
    case 'unevaluatedProperties':
      return `must not have the property '${String(params.unevaluatedProperty)}'`;
    case 'propertyNames':
      return `must not have a property named '${String(params.propertyName)}'`;
    case 'enum':
      return `must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`;
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`;
    default:
      return message;
  }
}

function invalid(issues: InputIssue[]): SvcError {
  const first = firstOf(issues);
  return new SvcError('INVALID_INPUT', `input${first.path} ${first.message}`, { path: first.path, issues });
}

function firstOf(issues: InputIssue[]): InputIssue {
  return issues[0] ?? { path: '', message: 'is not valid', keyword: '' };
}
