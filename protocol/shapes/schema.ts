/** The part of JSON Schema (2020-12) that shapes are declared in, the types that follow from it, and its usual pieces. */

/** What a pattern cannot say (`formats.ts`). */
export type Format =
  | 'app id'
  | 'version id'
  | 'chosen id'
  | 'network'
  | 'host pattern'
  | 'domain'
  | 'host name'
  | 'catalog address'
  | 'public address'
  | 'web address'
  | 'secure address'
  | 'ntfy topic'
  | 'cluster database'
  | 'mail server';

export type Type = 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'null';

/** `wanted`, which is ours, completes "must be …"; where it is missing, that of the schema around it is told. */
export type Schema = {
  readonly wanted?: string;
  /** Ours: what it means, for the reference. */
  readonly says?: string;
  readonly type?: Type | readonly Type[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly format?: Format;
  /** In UTF-16 units, as lengths in `LIMITS`. */
  readonly minLength?: number;
  readonly maxLength?: number;
  /** Ours: `Shape.part` cuts longer texts. */
  readonly cut?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Members;
  readonly required?: readonly string[];
  /** Beside `additionalProperties`. */
  readonly propertyNames?: Schema;
  readonly additionalProperties?: Schema | false;
  /** Objects among them differ in their first required member: in its name, or in its `const` or `enum`. */
  readonly anyOf?: readonly Schema[];
};
type Members = Readonly<Record<string, Schema>>;

type Types = {
  string: string;
  integer: number;
  number: number;
  boolean: boolean;
  null: null;
  object: Record<string, unknown>;
  array: unknown[];
};

/** A schema that says less of its values than their type. */
export type Typed<T> = Schema & { readonly '~values': T };

export function typed<T>(schema: Schema): Typed<T> {
  return schema as Typed<T>;
}

/** The type of the values of a schema. */
export type Of<S> = S extends { '~values': infer Value }
  ? Value
  : S extends { const: infer Value }
    ? Value
    : S extends { enum: readonly (infer Value)[] }
      ? Value
      : S extends { anyOf: readonly (infer One)[] }
        ? Of<One>
        : S extends { items: infer Item }
          ? Of<Item>[]
          : S extends { properties: infer All; required: readonly (infer Name)[] }
            ? { -readonly [Key in keyof All as Key extends Name ? Key : never]: Of<All[Key]> } & {
                -readonly [Key in keyof All as Key extends Name ? never : Key]?: Of<All[Key]>;
              } & (S extends { additionalProperties: infer Value extends Schema } ? Record<string, Of<Value>> : unknown)
            : S extends { additionalProperties: infer Value extends Schema }
              ? Record<string, Of<Value>>
              : S extends { type: infer One extends Type }
                ? Types[One]
                : S extends { type: readonly (infer One extends Type)[] }
                  ? Types[One]
                  : unknown;

/** Members that must be there and members that may be there; others are allowed. */
export function object<const R extends Members, const O extends Members = Record<never, Schema>>(
  required: R,
  optional?: O,
) {
  return {
    type: 'object' as const,
    properties: { ...required, ...optional } as R & O,
    required: Object.keys(required) as (keyof R & string)[],
    wanted: 'an object',
  };
}

/** The same, but without others. */
export function closed<const R extends Members, const O extends Members = Record<never, Schema>>(
  required: R,
  optional?: O,
) {
  return { ...object(required, optional), additionalProperties: false as const };
}

export function listOf<const S extends Schema>(items: S, wanted = 'a list') {
  return { type: 'array', items, wanted } as const;
}

/** What the schema says, or null. */
export function orNull<const S extends Schema>(schema: S) {
  return { anyOf: [schema, { type: 'null' }], wanted: `${schema.wanted}, or null` } as const;
}

export function oneOf<const W extends readonly string[]>(...words: W) {
  return { enum: words, wanted: `one of ${words.join(', ')}` } as const;
}

export function integer(minimum: number, maximum: number) {
  return { type: 'integer', minimum, maximum, wanted: `an integer from ${minimum} to ${maximum}` } as const;
}

/** The flag `u` is implied. */
export function matching(pattern: RegExp, wanted: string) {
  return { type: 'string', pattern: pattern.source, wanted } as const;
}

export function formatted(format: Format, wanted: string) {
  return { type: 'string', format, wanted } as const;
}

/** That says something. */
export function words(maxLength: number) {
  return { type: 'string', pattern: '\\S', maxLength, wanted: `a text of 1 to ${maxLength} characters` } as const;
}

export const text = { type: 'string', wanted: 'a text' } as const;
export const textOrNull = { type: ['string', 'null'], wanted: 'a text or null' } as const;
export const number = { type: 'number', wanted: 'a number' } as const;
export const count = { ...integer(0, Number.MAX_SAFE_INTEGER), wanted: 'a whole number' } as const;
export const flag = { type: 'boolean', wanted: 'true or false' } as const;
