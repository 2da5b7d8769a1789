/** Reads a JSON Schema as the fields of a form; what no form can show is edited as JSON. */

type Schema = Readonly<Record<string, unknown>>;

export type Member = { name: string; required: boolean; shape: Shape };

/** `title` and `hint` are what the schema says of the value. */
export type Shape = { title?: string; hint?: string; initial?: unknown } & (
  | { kind: 'text'; format: 'text' | 'long' | 'date' | 'datetime'; example?: string }
  | { kind: 'number'; isInteger: boolean; min?: number; max?: number }
  | { kind: 'boolean' }
  | { kind: 'constant'; value: unknown }
  | { kind: 'enum'; values: readonly unknown[] }
  | { kind: 'list'; item: Shape }
  | { kind: 'object'; members: readonly Member[] }
  | { kind: 'choice'; options: readonly Shape[] }
  | { kind: 'json' }
);

/** A schema may refer to itself: what is deeper is edited as JSON. */
const DEEPEST = 6;
const LONG = /text|body|notes?$|description|content|message|markdown|html/i;
const JSON_SHAPE: Shape = { kind: 'json' };

/** `name` is that of the member, which says whether a text may be long. */
export function shapeOf(schema: unknown, root: unknown = schema, name = '', depth = 0): Shape {
  if (!isObject(schema) || depth > DEEPEST) return JSON_SHAPE;
  if (typeof schema.$ref === 'string') {
    const target = resolve(root, schema.$ref);
    return target === undefined ? JSON_SHAPE : { ...shapeOf(target, root, name, depth + 1), ...said(schema) };
  }
  return { ...plainShape(schema, root, name, depth), ...said(schema) };
}

function plainShape(schema: Schema, root: unknown, name: string, depth: number): Shape {
  if ('const' in schema) return { kind: 'constant', value: schema.const };
  if (Array.isArray(schema.enum)) return { kind: 'enum', values: schema.enum };
  const alternatives = schema.oneOf ?? schema.anyOf;
  // Beside members of its own, alternatives only narrow what the members may be.
  if (Array.isArray(alternatives) && schema.properties === undefined) {
    return { kind: 'choice', options: alternatives.map((option) => shapeOf(option, root, name, depth + 1)) };
  }
  if (Array.isArray(schema.type)) {
    const options = schema.type.map((type) => plainShape({ ...schema, type }, root, name, depth + 1));
    return options.length === 1 ? (options[0] as Shape) : { kind: 'choice', options };
  }
  switch (schema.type ?? (isObject(schema.properties) ? 'object' : undefined)) {
    case 'string':
      return textShape(schema, name);
    case 'integer':
    case 'number':
      return {
        kind: 'number',
        isInteger: schema.type === 'integer',
        ...(typeof schema.minimum === 'number' && { min: schema.minimum }),
        ...(typeof schema.maximum === 'number' && { max: schema.maximum }),
      };
    case 'boolean':
      return { kind: 'boolean' };
    case 'null':
      return { kind: 'constant', value: null };
    case 'array':
      if (!isObject(schema.items) || schema.prefixItems !== undefined) return JSON_SHAPE;
      return { kind: 'list', item: shapeOf(schema.items, root, name, depth + 1) };
    case 'object':
      return objectShape(schema, root, depth);
    default:
      return JSON_SHAPE;
  }
}

function textShape({ format, maxLength, examples }: Schema, name: string): Shape {
  const isLong = LONG.test(name) || (typeof maxLength === 'number' && maxLength > 200);
  const example = Array.isArray(examples) && typeof examples[0] === 'string' ? { example: examples[0] } : {};
  if (format === 'date') return { kind: 'text', format: 'date' };
  if (format === 'date-time') return { kind: 'text', format: 'datetime' };
  return { kind: 'text', format: isLong ? 'long' : 'text', ...example };
}

function objectShape(schema: Schema, root: unknown, depth: number): Shape {
  const isClosed = schema.additionalProperties === false;
  if (!isObject(schema.properties)) return isClosed ? { kind: 'object', members: [] } : JSON_SHAPE;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const members = Object.entries(schema.properties).map(([name, member]) => ({
    name,
    required: required.includes(name),
    shape: shapeOf(member, root, name, depth + 1),
  }));
  return { kind: 'object', members };
}

function said({ title, description, default: initial }: Schema): { title?: string; hint?: string; initial?: unknown } {
  return {
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { hint: description }),
    ...(initial !== undefined && { initial }),
  };
}

/** References within the schema only: `#/$defs/item`. */
function resolve(root: unknown, reference: string): unknown {
  if (reference === '#') return root;
  if (!reference.startsWith('#/')) return undefined;
  let at = root;
  for (const part of reference.slice(2).split('/')) {
    const member = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, member)) return undefined;
    at = (at as Record<string, unknown>)[member];
  }
  return at;
}

/** What a form begins with; undefined is left out of the input. */
export function initialOf(shape: Shape, required: boolean): unknown {
  if (shape.initial !== undefined) return structuredClone(shape.initial);
  if (!required) return undefined;
  switch (shape.kind) {
    case 'constant':
      return shape.value;
    case 'enum':
      return shape.values[0];
    case 'boolean':
      return false;
    case 'list':
      return [];
    case 'object':
      return Object.fromEntries(shape.members.map((one) => [one.name, initialOf(one.shape, one.required)]));
    case 'choice':
      return shape.options[0] && initialOf(shape.options[0], true);
    case 'json':
      return {};
    default:
      return undefined;
  }
}

/** Whether a value could have been made with this form: which alternative of a choice it belongs to. */
export function fits(shape: Shape, value: unknown): boolean {
  switch (shape.kind) {
    case 'text':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'constant':
      return JSON.stringify(value) === JSON.stringify(shape.value);
    case 'enum':
      return shape.values.some((one) => JSON.stringify(one) === JSON.stringify(value));
    case 'list':
      return Array.isArray(value) && value.every((one) => fits(shape.item, one));
    case 'object':
      return (
        isObject(value) &&
        Object.keys(value).every((name) => shape.members.some((one) => one.name === name)) &&
        shape.members.every((one) => (value[one.name] === undefined ? true : fits(one.shape, value[one.name])))
      );
    case 'choice':
      return shape.options.some((option) => fits(option, value));
    case 'json':
      return true;
  }
}

/** What an alternative is called: its title, what is constant in it, or its type. */
export function nameOf(shape: Shape): string {
  if (shape.title !== undefined) return shape.title;
  if (shape.kind === 'constant') return shape.value === null ? 'none (null)' : String(shape.value);
  if (shape.kind === 'object') {
    const constant = shape.members.find((one) => one.shape.kind === 'constant');
    if (constant?.shape.kind === 'constant') return String(constant.shape.value);
    return shape.members.map((one) => one.name).join(', ') || 'nothing';
  }
  if (shape.kind === 'number') return shape.isInteger ? 'whole number' : 'number';
  return { text: 'text', boolean: 'yes or no', enum: 'one of a list', list: 'list', choice: 'choice', json: 'JSON' }[
    shape.kind
  ];
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
