/** Writes a JSON Schema as the TypeScript type of the values that it admits, or of more where a type cannot say it. */
import type { JsonSchema } from '../../protocol/manifest.ts';

type Keywords = { [keyword: string]: unknown };

/** How deep types nest; deeper ones, as in a schema that contains itself, are `unknown`. */
const DEPTH = 12;
const NAME = /^[A-Za-z_$][\w$]*$/;

/** `indent` is that of the line on which the type begins. */
export function typeOfSchema(schema: JsonSchema, indent = ''): string {
  return new Writer(schema).type(schema, indent, 0);
}

/** A JSDoc comment on a line of its own, or nothing. */
export function comment(text: unknown, indent: string): string {
  if (typeof text !== 'string' || text.trim() === '') return '';
  return `${indent}/** ${text.trim().replaceAll('*/', '*\\/').replace(/\s+/g, ' ')} */\n`;
}

export function memberName(name: string): string {
  return NAME.test(name) ? name : JSON.stringify(name);
}

class Writer {
  readonly #root: JsonSchema;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  type(schema: unknown, indent: string, depth: number): string {
    if (schema === false) return 'never';
    if (!isObject(schema) || depth > DEPTH) return 'unknown';
    const types = this.#conjuncts(schema, indent, depth + 1).filter((type) => type !== 'unknown');
    return types.length === 0
      ? 'unknown'
      : types.map((type, _, all) => (all.length > 1 ? grouped(type) : type)).join(' & ');
  }

  /** Types that must all hold. */
  #conjuncts(schema: Keywords, indent: string, depth: number): string[] {
    const nested = (inner: unknown): string => this.type(inner, indent, depth);
    const union = (inner: unknown): string[] =>
      Array.isArray(inner) && inner.length > 0 ? [oneOf(inner.map(nested))] : [];
    return [
      ...('const' in schema ? [literal(schema.const)] : []),
      ...(Array.isArray(schema.enum) ? [oneOf(schema.enum.map(literal))] : []),
      ...('const' in schema || Array.isArray(schema.enum) ? [] : [this.#byType(schema, indent, depth)]),
      ...(typeof schema.$ref === 'string' ? [nested(this.#resolve(schema.$ref))] : []),
      ...union(schema.anyOf),
      ...union(schema.oneOf),
      ...(Array.isArray(schema.allOf) ? schema.allOf.map(nested) : []),
    ];
  }

  #byType(schema: Keywords, indent: string, depth: number): string {
    const { type } = schema;
    if (Array.isArray(type)) return oneOf(type.map((one) => this.#named(one, schema, indent, depth)));
    if (type !== undefined) return this.#named(type, schema, indent, depth);
    // Without a type, values of other types pass too.
    return 'unknown';
  }

  #named(type: unknown, schema: Keywords, indent: string, depth: number): string {
    switch (type) {
      case 'string':
      case 'boolean':
      case 'null':
        return type;
      case 'integer':
      case 'number':
        return 'number';
      case 'array':
        return this.#array(schema, indent, depth);
      case 'object':
        return this.#object(schema, indent, depth);
      default:
        return 'unknown';
    }
  }

  #array({ items, prefixItems, minItems }: Keywords, indent: string, depth: number): string {
    const rest = items === undefined ? 'unknown' : this.type(items, indent, depth);
    if (!Array.isArray(prefixItems)) return `${grouped(rest)}[]`;
    const needed = typeof minItems === 'number' ? minItems : 0;
    const first = prefixItems.map((item, i) => `${grouped(this.type(item, indent, depth))}${i < needed ? '' : '?'}`);
    return `[${[...first, ...(items === false ? [] : [`...${grouped(rest)}[]`])].join(', ')}]`;
  }

  #object({ properties, required, additionalProperties }: Keywords, indent: string, depth: number): string {
    const needed: unknown[] = Array.isArray(required) ? required : [];
    const inner = `${indent}  `;
    const named = Object.entries(isObject(properties) ? properties : {});
    const members = named.map(([name, schema]) => {
      const about = comment(isObject(schema) ? schema.description : '', inner);
      const mark = needed.includes(name) ? '' : '?';
      return `${about}${inner}${memberName(name)}${mark}: ${this.type(schema, inner, depth)};\n`;
    });
    for (const name of needed) {
      if (typeof name === 'string' && !named.some(([known]) => known === name))
        members.push(`${inner}${memberName(name)}: unknown;\n`);
    }
    // A member of any name would have to have the type of these too.
    if (members.length > 0) return `{\n${members.join('')}${indent}}`;
    if (additionalProperties === false) return 'Record<string, never>';
    return `Record<string, ${this.type(additionalProperties ?? true, indent, depth)}>`;
  }

  /** `#/$defs/note`; null for anything else. */
  #resolve(ref: string): unknown {
    if (ref === '#') return this.#root;
    if (!ref.startsWith('#/')) return null;
    let found: unknown = this.#root;
    for (const segment of ref.slice(2).split('/')) {
      const key = decode(segment).replaceAll('~1', '/').replaceAll('~0', '~');
      found = (isObject(found) || Array.isArray(found)) && Object.hasOwn(found, key) ? (found as Keywords)[key] : null;
    }
    return found;
  }
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function oneOf(types: string[]): string {
  const unlike = [...new Set(types)];
  return unlike.includes('unknown') ? 'unknown' : unlike.map((type) => grouped(type, '&')).join(' | ');
}

/** In brackets where an operator would bind otherwise. */
function grouped(type: string, operators = '|&'): string {
  const outside = type.replace(/"(?:[^"\\]|\\.)*"|\{[\s\S]*\}|\([\s\S]*\)|<[\s\S]*>/g, '');
  return [...operators].some((operator) => outside.includes(` ${operator} `)) ? `(${type})` : type;
}

function literal(value: unknown): string {
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return JSON.stringify(value);
  return 'unknown';
}

function isObject(value: unknown): value is Keywords {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
