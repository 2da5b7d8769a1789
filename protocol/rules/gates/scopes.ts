/** Which declaration a name means, and which global an expression reaches through names, members and destructuring. */
import type { AnyNode, Expression, Pattern, Program } from 'acorn';
import { ancestor } from 'acorn-walk';

/**
 * What a name was declared with: `value` is null for what nobody can tell, such as an argument. Of functions, classes and
 * imports it is what declares them.
 */
export type Binding = { value: AnyNode | null; keys: string[]; scope: Scope };

export type Scope = { names: Map<string, Binding>; parent: Scope | null };

const SCOPES = new Set<AnyNode['type']>([
  'Program',
  'BlockStatement',
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'SwitchStatement',
  'CatchClause',
  'StaticBlock',
  'ClassExpression',
]);
const FUNCTIONS = new Set<AnyNode['type']>(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
/** What a function of the app's own is declared with, or reached through. */
const OWN = new Set<AnyNode['type']>([
  ...FUNCTIONS,
  'ClassDeclaration',
  'ClassExpression',
  'ObjectExpression',
  'ThisExpression',
  'Super',
  'ImportSpecifier',
  'ImportDefaultSpecifier',
  'ImportNamespaceSpecifier',
  'ImportExpression',
]);
const GLOBAL_OBJECTS = new Set(['globalThis', 'global']);
/** Steps from an expression to what it means; the globals that matter are nearer. */
const STEPS = 8;

export class Scopes {
  readonly #scopes = new Map<AnyNode, Scope>();
  readonly #step: () => void;

  /** `step` is called with every look-up. */
  constructor(program: Program, step: () => void) {
    this.#step = step;
    ancestor(program, {
      VariableDeclaration: ({ kind, declarations }, _, ancestors) => {
        const scope = this.at(kind === 'var' ? hoisted(ancestors) : ancestors);
        const from = this.at(ancestors);
        for (const { id, init } of declarations) declare(scope, id, { value: init ?? null, keys: [], scope: from });
      },
      Function: (node, _, ancestors) => {
        const own = this.at(ancestors);
        const isDeclaration = node.type === 'FunctionDeclaration';
        if (node.id) declareAs(isDeclaration ? this.at(ancestors.slice(0, -1)) : own, node.id, node as AnyNode);
        for (const param of node.params) declareOpaque(own, param);
      },
      Class: (node, _, ancestors) => {
        if (node.id) declareAs(this.at(ancestors), node.id, node as AnyNode);
      },
      CatchClause: ({ param }, _, ancestors) => {
        if (param) declareOpaque(this.at(ancestors), param);
      },
      ImportDeclaration: ({ specifiers }, _, ancestors) => {
        for (const specifier of specifiers) declareAs(this.at(ancestors), specifier.local, specifier);
      },
    });
  }

  /** The scope of a node, given as the last of its ancestors. */
  at(ancestors: readonly AnyNode[]): Scope {
    this.#step();
    return this.#upFrom(ancestors, ancestors.length - 1) as Scope;
  }

  #upFrom(ancestors: readonly AnyNode[], from: number): Scope | null {
    let i = from;
    while (i >= 0 && !SCOPES.has((ancestors[i] as AnyNode).type)) i--;
    const node = ancestors[i];
    if (node === undefined) return null;
    const known = this.#scopes.get(node);
    if (known !== undefined) return known;
    const scope: Scope = { names: new Map(), parent: this.#upFrom(ancestors, i - 1) };
    this.#scopes.set(node, scope);
    return scope;
  }
}

/** The ancestors up to where a `var` is declared: the body of a function, not its parameters. */
function hoisted(ancestors: readonly AnyNode[]): readonly AnyNode[] {
  for (let i = ancestors.length - 1; i > 0; i--) {
    const { type } = ancestors[i] as AnyNode;
    const isBody = type === 'BlockStatement' && isFunction(ancestors[i - 1] as AnyNode);
    if (isBody || type === 'StaticBlock') return ancestors.slice(0, i + 1);
  }
  return ancestors.slice(0, 1);
}

function declareAs(scope: Scope, id: Pattern, value: AnyNode): void {
  declare(scope, id, { value, keys: [], scope });
}

function declareOpaque(scope: Scope, pattern: Pattern): void {
  declare(scope, pattern, { value: null, keys: [], scope });
}

function declare(scope: Scope, pattern: Pattern, binding: Binding): void {
  switch (pattern.type) {
    case 'Identifier':
      if (!scope.names.has(pattern.name)) scope.names.set(pattern.name, binding);
      break;
    case 'AssignmentPattern':
      // A default is what the name may mean when nothing else is known of it.
      declare(
        scope,
        pattern.left,
        binding.value === null ? { value: pattern.right, keys: [], scope: binding.scope } : binding,
      );
      break;
    case 'ArrayPattern':
      for (const element of pattern.elements) if (element) declareOpaque(scope, element);
      break;
    case 'RestElement':
      declareOpaque(scope, pattern.argument);
      break;
    case 'ObjectPattern':
      for (const property of pattern.properties) {
        if (property.type === 'RestElement') {
          declareOpaque(scope, property.argument);
          continue;
        }
        const key = staticKey(property.key, property.computed);
        const known = key !== null && binding.value !== null;
        declare(
          scope,
          property.value,
          known ? { ...binding, keys: [...binding.keys, key] } : { ...binding, value: null },
        );
      }
  }
}

export function isFunction({ type }: AnyNode): boolean {
  return FUNCTIONS.has(type);
}

export function lookUp(name: string, scope: Scope): Binding | null {
  for (let at: Scope | null = scope; at !== null; at = at.parent) {
    const binding = at.names.get(name);
    if (binding !== undefined) return binding;
  }
  return null;
}

/** `Date.now` and `globalThis['Date'].now` → `['Date', 'now']`, `globalThis` → `[]`; null for anything else. */
export function globalPath(node: AnyNode, scope: Scope, steps = STEPS): string[] | null {
  if (steps === 0) return null;
  switch (node.type) {
    case 'Identifier': {
      const binding = lookUp(node.name, scope);
      if (binding === null) return globalMember([], node.name);
      if (binding.value === null) return null;
      const path = globalPath(binding.value, binding.scope, steps - 1);
      return path === null ? null : binding.keys.reduce(globalMember, path);
    }
    case 'MemberExpression': {
      const key = staticKey(node.property, node.computed);
      const path = key === null ? null : globalPath(node.object, scope, steps - 1);
      return path === null ? null : globalMember(path, key as string);
    }
    case 'ChainExpression':
      return globalPath(node.expression, scope, steps);
    case 'SequenceExpression':
      return globalPath(node.expressions.at(-1) as Expression, scope, steps - 1);
    default:
      return null;
  }
}

/**
 * Whether a function is the app's own: what it is reached through is imported, or declared in the file as a function, a
 * class or an object.
 */
export function isOwn(callee: AnyNode, scope: Scope): boolean {
  let node = callee;
  let at = scope;
  for (let names = 0; names < STEPS; ) {
    switch (node.type) {
      case 'MemberExpression':
        node = node.object;
        break;
      case 'CallExpression':
      case 'NewExpression':
        node = node.callee;
        break;
      case 'AwaitExpression':
        node = node.argument;
        break;
      case 'ChainExpression':
        node = node.expression;
        break;
      case 'Identifier': {
        const binding = lookUp(node.name, at);
        if (binding === null || binding.value === null) return false;
        node = binding.value;
        at = binding.scope;
        names++;
        break;
      }
      default:
        return OWN.has(node.type);
    }
  }
  return false;
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
