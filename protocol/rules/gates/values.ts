/** Which expressions of its file a name, a member or a call may mean: what was declared, assigned, added or returned. */
import type { AnyNode, ArrayExpression, ObjectExpression, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { type Binding, isFunction, lookUp, type Scope, type Scopes, staticKey } from './scopes.ts';

/** The way to a part of a value, from outside in; null stands for any part. */
type Keys = (string | null)[];

/** What was put at `path` of a name: the part `keys` of `value`. One that is not `exact` is only some of it. */
type Source = { path: Keys; value: AnyNode; keys: Keys; scope: Scope; exact: boolean };

/** A part of some expression that is to be looked into; `exact` as long as nothing was done to it on the way. */
type Item = { node: AnyNode; scope: Scope; keys: Keys; exact: boolean };

/** An element or a property; of one that is spread, the parts are meant. */
type Part = { value: AnyNode; isSpread: boolean };

/** What is kept of a way; the value at the end of a longer one may be any part of what is there. */
const KEYS = 3;
/** Of a name with more ways to its parts all of it is meant: `node = node.a; node = node.b` makes ever more of them. */
const WAYS = 100;
const ADDING = new Set(['push', 'unshift', 'add', 'set']);

export class Values {
  /** By the first key of the path; under null are those that may be at any. */
  readonly #sources = new Map<Binding, Map<string | null, Source[]>>();
  readonly #returned = new Map<AnyNode, { value: AnyNode; scope: Scope }[]>();
  readonly #parts = new Map<AnyNode, Map<string | null, Part[]>>();
  readonly #followed = new Map<Binding, Set<string>>();
  readonly #step: () => void;
  readonly #reached: (node: AnyNode, exact: boolean) => void;

  /**
   * `step` is called with every expression that is looked into, `reached` with every literal, template and concatenation
   * that `follow` comes to.
   */
  constructor(program: Program, scopes: Scopes, step: () => void, reached: (node: AnyNode, exact: boolean) => void) {
    this.#step = step;
    this.#reached = reached;
    ancestor(program, {
      VariableDeclarator: ({ id, init }, _, ancestors) => {
        const scope = scopes.at(ancestors);
        if (init) this.#assign(id, { path: [], value: init, keys: [], scope, exact: true }, scope);
      },
      AssignmentExpression: ({ left, right, operator }, _, ancestors) => {
        const scope = scopes.at(ancestors);
        this.#assign(left, { path: [], value: right, keys: [], scope, exact: operator !== '+=' }, scope);
      },
      AssignmentPattern: ({ left, right }, _, ancestors) => {
        const scope = scopes.at(ancestors);
        this.#assign(left, { path: [], value: right, keys: [], scope, exact: true }, scope);
      },
      ForOfStatement: ({ left, right }, _, ancestors) => {
        const scope = scopes.at(ancestors);
        const target = left.type === 'VariableDeclaration' ? left.declarations[0]?.id : left;
        if (target) this.#assign(target, { path: [], value: right, keys: [null], scope, exact: true }, scope);
      },
      CallExpression: ({ callee, arguments: added }, _, ancestors) => {
        if (callee.type !== 'MemberExpression') return;
        if (!ADDING.has(staticKey(callee.property, callee.computed) ?? '')) return;
        const scope = scopes.at(ancestors);
        for (const value of added) {
          const source =
            value.type === 'SpreadElement' ? { value: value.argument, keys: [null] } : { value, keys: [] as Keys };
          this.#put(callee.object, { path: [null], ...source, scope, exact: true }, scope);
        }
      },
      FunctionDeclaration: (node, _, ancestors) => {
        const scope = scopes.at(ancestors);
        if (node.id) this.#assign(node.id, { path: [], value: node, keys: [], scope, exact: true }, scope);
      },
      ArrowFunctionExpression: (node, _, ancestors) => {
        if (node.expression) this.#returned.set(node, [{ value: node.body, scope: scopes.at(ancestors) }]);
      },
      ReturnStatement: ({ argument }, _, ancestors) => {
        const from = ancestors.findLast(isFunction);
        if (!argument || from === undefined) return;
        addTo(this.#returned, from, { value: argument, scope: scopes.at(ancestors) });
      },
    });
  }

  /** Reaches what a name or a member means; each once in all, however often and by whatever way it is asked for. */
  follow(node: AnyNode, scope: Scope, exact: boolean): void {
    const waiting: Item[] = [{ node, scope, keys: [], exact }];
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) {
      this.#step();
      this.#open(item, waiting);
    }
  }

  #open({ node, scope, keys, exact }: Item, waiting: Item[]): void {
    const add = (inner: AnyNode, innerKeys: Keys = keys, isExact = exact): void => {
      waiting.push(itemOf(inner, scope, innerKeys, isExact));
    };
    switch (node.type) {
      case 'Literal':
        this.#reached(node, exact && keys.length === 0);
        break;
      case 'TemplateLiteral':
        this.#reached(node, exact && keys.length === 0);
        for (const expression of node.expressions) add(expression, [], false);
        break;
      case 'BinaryExpression':
        if (node.operator !== '+') break;
        this.#reached(node, exact && keys.length === 0);
        add(node.left, [], false);
        add(node.right, [], false);
        break;
      case 'TaggedTemplateExpression':
        add(node.quasi);
        break;
      case 'Identifier':
        this.#openName(node.name, { node, scope, keys, exact }, waiting);
        break;
      case 'MemberExpression':
        add(node.object, [keyOf(node.property, node.computed), ...keys]);
        break;
      case 'ConditionalExpression':
        add(node.consequent);
        add(node.alternate);
        break;
      case 'LogicalExpression':
        add(node.left);
        add(node.right);
        break;
      case 'SequenceExpression':
        add(node.expressions.at(-1) as AnyNode);
        break;
      case 'AssignmentExpression':
        add(node.right, keys, exact && node.operator !== '+=');
        break;
      case 'ChainExpression':
        add(node.expression);
        break;
      case 'AwaitExpression':
        add(node.argument);
        break;
      case 'SpreadElement':
        add(node.argument);
        break;
      case 'ArrayExpression':
      case 'ObjectExpression':
        for (const { value, isSpread } of this.#partsAt(node, keys)) {
          const rest = keys.slice(1);
          const ofSpread = node.type === 'ObjectExpression' || keys.length === 0 ? keys : [null, ...rest];
          add(value, isSpread ? ofSpread : rest, exact && keys.length > 0);
        }
        break;
      case 'CallExpression':
      case 'NewExpression':
        // Whatever it does: what goes in may come out.
        for (const argument of node.arguments) add(argument, keys, false);
        add(node.callee, keys, false);
        break;
      case 'FunctionDeclaration':
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        for (const returned of this.#returned.get(node) ?? []) {
          waiting.push({ node: returned.value, scope: returned.scope, keys, exact: false });
        }
    }
  }

  #openName(name: string, item: Item, waiting: Item[]): void {
    const binding = lookUp(name, item.scope);
    const sources = binding === null ? undefined : this.#sources.get(binding);
    if (binding === null || sources === undefined) return;
    const followed = this.#followed.get(binding) ?? new Set();
    const { keys, exact } = followed.size < WAYS ? item : { keys: [], exact: false };
    const way = JSON.stringify([exact, ...keys]);
    if (followed.has(way)) return;
    this.#followed.set(binding, followed.add(way));
    for (const { path, value, scope, ...source } of groupsAt(sources, keys[0])) {
      this.#step();
      if (!path.every((key, i) => i >= keys.length || key === null || keys[i] === null || key === keys[i])) continue;
      const isAll = exact && source.exact && keys.length >= path.length;
      waiting.push(itemOf(value, scope, [...source.keys, ...keys.slice(path.length)], isAll));
    }
  }

  /** The elements or properties that a way leads through first. */
  #partsAt(node: ArrayExpression | ObjectExpression, [key]: Keys): Part[] {
    let parts = this.#parts.get(node);
    if (parts === undefined) {
      parts = partsOf(node);
      this.#parts.set(node, parts);
    }
    const isMethod = node.type === 'ArrayExpression' && typeof key === 'string' && !/^\d+$/.test(key);
    return groupsAt(parts, isMethod ? null : key);
  }

  /** Names the parts of a value after a pattern; the defaults in it are assignments of their own. */
  #assign(target: AnyNode, source: Source, scope: Scope): void {
    this.#step();
    switch (target.type) {
      case 'Identifier':
      case 'MemberExpression':
        this.#put(target, source, scope);
        break;
      case 'AssignmentPattern':
        this.#assign(target.left, source, scope);
        break;
      case 'ArrayPattern':
        for (const [i, element] of target.elements.entries()) {
          if (element?.type === 'RestElement')
            this.#assign(element.argument, { ...source, path: [null], keys: [...source.keys, null] }, scope);
          else if (element) this.#assign(element, { ...source, keys: [...source.keys, String(i)] }, scope);
        }
        break;
      case 'ObjectPattern':
        for (const property of target.properties) {
          if (property.type === 'RestElement') this.#assign(property.argument, source, scope);
          else {
            const key = keyOf(property.key, property.computed);
            this.#assign(property.value, { ...source, keys: [...source.keys, key] }, scope);
          }
        }
    }
  }

  /** Adds a source to the name that a target begins with, if it is one of the file. */
  #put(target: AnyNode, source: Source, scope: Scope): void {
    let path = source.path;
    let root = target;
    for (; root.type === 'MemberExpression'; root = root.object) {
      path = [keyOf(root.property, root.computed), ...path].slice(0, KEYS);
    }
    const binding = root.type === 'Identifier' ? lookUp(root.name, scope) : null;
    if (binding === null) return;
    const sources = this.#sources.get(binding) ?? new Map<string | null, Source[]>();
    this.#sources.set(binding, sources);
    addTo(sources, path[0] ?? null, { ...source, path });
  }
}

function itemOf(node: AnyNode, scope: Scope, keys: Keys, exact: boolean): Item {
  return { node, scope, keys: keys.slice(0, KEYS), exact: exact && keys.length <= KEYS };
}

function addTo<K, V>(groups: Map<K, V[]>, key: K, value: V): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [value]);
  else group.push(value);
}

/** What may be at a key, or at any. */
function groupsAt<V>(groups: Map<string | null, V[]>, key: string | null | undefined): V[] {
  if (key === undefined || key === null) return [...groups.values()].flat();
  return [...(groups.get(key) ?? []), ...(groups.get(null) ?? [])];
}

/** By key; under null what may be any of them. */
function partsOf(node: ArrayExpression | ObjectExpression): Map<string | null, Part[]> {
  const parts = new Map<string | null, Part[]>();
  if (node.type === 'ObjectExpression') {
    for (const property of node.properties) {
      if (property.type === 'SpreadElement') addTo(parts, null, { value: property.argument, isSpread: true });
      else addTo(parts, keyOf(property.key, property.computed), { value: property.value, isSpread: false });
    }
    return parts;
  }
  let isShifted = false;
  for (const [i, element] of node.elements.entries()) {
    if (element === null) continue;
    const isSpread = element.type === 'SpreadElement';
    isShifted ||= isSpread;
    addTo(parts, isShifted ? null : String(i), { value: isSpread ? element.argument : element, isSpread });
  }
  return parts;
}

function keyOf(key: AnyNode, computed: boolean): string | null {
  return key.type === 'Literal' && typeof key.value === 'number' ? String(key.value) : staticKey(key, computed);
}
