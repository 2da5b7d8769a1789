/** Checks inputs, and what automations answer, with the validators of a version. */
import { type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

// App code could replace them.
const { hasOwn } = Object;
const { isArray } = Array;

/** What Ajv reports of one failing value. */
type SchemaError = { instancePath: string; keyword: string; message?: string; params?: Record<string, unknown> };
export type Validate = ((input: unknown) => boolean) & { errors?: SchemaError[] | null };

/** By tool name; a tool without a schema has none and takes any object. Those of automations check their output. */
export type Validators = Record<'queries' | 'actions' | 'automations', Record<string, Validate>>;

/** Throws `INVALID_INPUT` with the first failing value in `path` and up to `LIMITS.inputIssues` of them in `issues`. */
export function checkInput(validators: Record<string, Validate>, tool: string, input: unknown): void {
  const validate = hasOwn(validators, tool) ? validators[tool] : undefined;
  if (validate === undefined) {
    if (typeof input === 'object' && input !== null && !isArray(input)) return;
    throw invalid([{ path: '', message: 'must be object', keyword: 'type' }]);
  }
  const issues = faults(validate, input);
  if (issues !== null) throw invalid(issues);
}

/** Throws `HANDLER_ERROR` with the issues as `checkInput` does. Without a schema it does not ask for the value. */
export function checkOutput(validators: Record<string, Validate>, automation: string, output: () => unknown): void {
  const validate = hasOwn(validators, automation) ? validators[automation] : undefined;
  const issues = validate === undefined ? null : faults(validate, output());
  if (issues === null) return;
  const { path, message } = firstOf(issues);
  throw new SvcError('HANDLER_ERROR', `output${path} ${message}`, { path, issues });
}

/** Why the schema rejects the value; null when it accepts it. */
function faults(validate: Validate, value: unknown): InputIssue[] | null {
  try {
    if (validate(value)) return null;
  } catch (error) {
    // A schema that refers to itself goes as deep as its input, until the stack ends.
    if (!(error instanceof RangeError)) throw error;
    return [{ path: '', message: 'nests too deeply to be checked', keyword: 'depth' }];
  }
  const errors = (validate.errors ?? []).slice(0, LIMITS.inputIssues);
  return errors.map((error) => ({ path: error.instancePath, message: explain(error), keyword: error.keyword }));
}

/** Ajv's message, with the name or values that it omits. */
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
