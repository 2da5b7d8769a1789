/** Resolves names with eslint-scope: what a name was declared with, and which global an expression reaches. */
import type { AnyNode, Expression, Identifier, Pattern, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { analyze, type Definition, type Reference } from 'eslint-scope';

const GLOBAL_OBJECTS = new Set(['globalThis', 'global']);
/** Steps from an expression to the global that it means; the globals that matter are nearer. */
const STEPS = 8;
/** eslint-scope lists a name in each scope that it is not declared in: for one that is deep, in all of them. */
const LISTED_NAMES = 15_000_000;

export class Names {
  readonly #references = new Map<AnyNode, Reference>();
  readonly #step: () => void;

  /** `step` is called with every name. Throws a RangeError for a text that nests too deeply. */
  constructor(program: Program, step: () => void) {
    this.#step = step;
    let listed = 0;
    ancestor(program, {
      Identifier: (_node, _state, ancestors) => {
        step();
        listed += ancestors.length;
        if (listed > LISTED_NAMES) throw new RangeError('too deep');
      },
    });
    const { scopes } = analyze(program as Parameters<typeof analyze>[0], { ecmaVersion: 2022, sourceType: 'module' });
    for (const { references } of scopes) {
      for (const reference of references) this.#references.set(reference.identifier as AnyNode, reference);
    }
  }

  isGlobal(name: Identifier): boolean {
    return this.#references.get(name)?.resolved === null;
  }

  /** What declares a name of the file; null for a global. */
  definition(name: Identifier): Definition | null {
    return this.#references.get(name)?.resolved?.defs[0] ?? null;
  }

  /** `Date.now` and `globalThis['Date'].now` → `['Date', 'now']`, `globalThis` → `[]`; null for anything else. */
  globalPath(node: AnyNode, steps = STEPS): string[] | null {
    this.#step();
    if (steps === 0) return null;
    switch (node.type) {
      case 'Identifier': {
        if (this.isGlobal(node)) return globalMember([], node.name);
        const declared = this.#declaredWith(node);
        const path = declared === null ? null : this.globalPath(declared.value, steps - 1);
        return declared === null || path === null ? null : declared.keys.reduce(globalMember, path);
      }
      case 'MemberExpression': {
        const key = staticKey(node.property, node.computed);
        const path = key === null ? null : this.globalPath(node.object, steps - 1);
        return path === null ? null : globalMember(path, key as string);
      }
      case 'ChainExpression':
        return this.globalPath(node.expression, steps);
      case 'SequenceExpression':
        return this.globalPath(node.expressions.at(-1) as Expression, steps - 1);
      default:
        return null;
    }
  }

  /** The part `keys` of `value`: of a variable what it is declared with, of a parameter its default. */
  #declaredWith(name: Identifier): { value: AnyNode; keys: string[] } | null {
    const variable = this.#references.get(name)?.resolved;
    const definition = variable?.defs[0];
    if (definition?.type === 'Variable' && definition.node.init) {
      const keys = this.#keysTo(definition.name as AnyNode, definition.node.id as Pattern);
      return keys === null ? null : { value: definition.node.init as AnyNode, keys };
    }
    const byDefault = variable?.references.find(({ init, partial }) => init && !partial)?.writeExpr;
    return byDefault ? { value: byDefault as AnyNode, keys: [] } : null;
  }

  /** From outside in, the members of a pattern that lead to a name in it; null where they cannot be told. */
  #keysTo(name: AnyNode, pattern: Pattern): string[] | null {
    this.#step();
    if (pattern === name) return [];
    if (pattern.type === 'AssignmentPattern') return this.#keysTo(name, pattern.left);
    if (pattern.type !== 'ObjectPattern') return null;
    for (const property of pattern.properties) {
      if (property.type === 'RestElement') continue;
      const keys = this.#keysTo(name, property.value);
      const key = keys === null ? null : staticKey(property.key, property.computed);
      if (keys !== null && key !== null) return [key, ...keys];
    }
    return null;
  }
}

export function globalMember(path: string[], key: string): string[] {
  return path.length === 0 && GLOBAL_OBJECTS.has(key) ? [] : [...path, key];
}

/** The name of a member where the text says it, or null. */
export function staticKey(key: AnyNode, computed: boolean): string | null {
  if (key.type === 'Identifier' && !computed) return key.name;
  return staticText(key);
}

/** What a string literal, or a template without expressions, says. */
export function staticText(node: AnyNode): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null;
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0) return node.quasis[0]?.value.cooked ?? null;
  return null;
}
