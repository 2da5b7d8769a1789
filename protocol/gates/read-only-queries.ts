/** The rule of queries: no statement in their text writes (specification, "Tool kinds"). */
import type { AnyNode, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { type Finding, QUERY_RULE, type Reach } from './rules.ts';
import { lookUp, type Scope, type Scopes, staticKey } from './scopes.ts';
import { PLACEHOLDER, writingKeyword } from './sql-writes.ts';

/** What runs or prepares SQL, on `db`, on a transaction, or under a name of the handler's own. */
const SQL_METHODS = new Set(['run', 'get', 'all', 'exec', 'prepare', 'batch']);
const DB_METHODS = new Set([...SQL_METHODS, 'transaction']);

/** Through these a value reaches the call that it is an argument of. */
const TRANSPARENT = new Set<AnyNode['type']>([
  'ArrayExpression',
  'ConditionalExpression',
  'LogicalExpression',
  'SequenceExpression',
  'SpreadElement',
  'TaggedTemplateExpression',
]);

const inQueries = ({ query, action, automation }: Reach): boolean => query && !action && !automation;

/**
 * Every finding, in no order; `isQuery` says that the file is a query's own handler, which is one whoever imports it. A
 * finding stands where the SQL text begins.
 */
export function checkReadOnly(program: Program, scopes: Scopes, isQuery: boolean): Finding[] {
  const found = new Map<number, Finding>();

  /** A name may be used often, so the text behind it is read once. */
  const known = new Map<AnyNode, { keyword: string | null; isWhole: boolean }>();
  const read = (node: AnyNode): { keyword: string | null; isWhole: boolean } => {
    const text = sqlText(node);
    const keyword = text === null ? null : writingKeyword(text, { whole: false });
    const isWhole = keyword !== null && writingKeyword(text as string, { whole: true }) !== null;
    known.set(node, { keyword, isWhole });
    return { keyword, isWhole };
  };

  const judge = (node: AnyNode, ancestors: AnyNode[]): void => {
    const { keyword, isWhole } = known.get(node) ?? read(node);
    if (keyword === null || found.has(node.start)) return;
    const use = useOf(ancestors);
    if (use === null || (use === 'argument' && !isWhole)) return;
    const message =
      `A query must not write, and this statement does (${keyword}): no page would hear of the change. ` +
      `Move it to an action, or give the reason in a comment: // governance: allow-${QUERY_RULE} <reason>.`;
    found.set(node.start, { rule: QUERY_RULE, at: node.start, message, ...(isQuery ? {} : { applies: inQueries }) });
  };
  const judgeNode = (node: AnyNode, _: unknown, ancestors: AnyNode[]): void => {
    const parent = ancestors.at(-2);
    // A concatenation is judged as a whole.
    if (parent === undefined || !isConcatenation(parent)) judge(node, ancestors);
  };

  ancestor(program, {
    Literal: judgeNode,
    TemplateLiteral: judgeNode,
    BinaryExpression: judgeNode,
    Identifier: (node, _, ancestors) => {
      const value = declaredAs(node.name, scopes.at(ancestors));
      if (value !== null) judge(value, ancestors);
    },
  });
  return [...found.values()];
}

/** What a name of this file was declared as. */
function declaredAs(name: string, scope: Scope): AnyNode | null {
  const binding = lookUp(name, scope);
  if (binding === null || binding.value === null || binding.keys.length > 0) return null;
  return binding.value.type === 'TaggedTemplateExpression' ? binding.value.quasi : binding.value;
}

/** How a text is used: as the SQL of a call to `db`, as an argument that may be SQL, or neither. */
function useOf(ancestors: AnyNode[]): 'sql' | 'argument' | null {
  let isDirect = true;
  for (let i = ancestors.length - 2; i >= 0; i--) {
    const node = ancestors[i] as AnyNode;
    const inner = ancestors[i + 1] as AnyNode;
    if (node.type === 'CallExpression' && node.callee !== inner) {
      const { method, isDb } = calleeOf(node.callee);
      if (isDb && DB_METHODS.has(method)) {
        return isDirect && method !== 'batch' && node.arguments[0] === inner ? 'sql' : 'argument';
      }
      if (isDirect && SQL_METHODS.has(method)) return 'argument';
    }
    isDirect &&= TRANSPARENT.has(node.type);
  }
  return null;
}

function calleeOf(callee: AnyNode): { method: string; isDb: boolean } {
  if (callee.type === 'Identifier') return { method: callee.name, isDb: false };
  if (callee.type !== 'MemberExpression') return { method: '', isDb: false };
  const { object } = callee;
  const name = object.type === 'MemberExpression' ? staticKey(object.property, object.computed) : nameOf(object);
  return { method: staticKey(callee.property, callee.computed) ?? '', isDb: name === 'db' };
}

function nameOf(node: AnyNode): string | null {
  return node.type === 'Identifier' ? node.name : null;
}

function isConcatenation(node: AnyNode): boolean {
  return node.type === 'BinaryExpression' && node.operator === '+';
}

/** A literal, a template or a concatenation as SQL; null for anything else. */
function sqlText(node: AnyNode): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null;
  if (node.type === 'TemplateLiteral') {
    return node.quasis.map(({ value }) => value.cooked ?? value.raw).join(PLACEHOLDER);
  }
  if (!isConcatenation(node)) return null;
  const parts: string[] = [];
  let rest: AnyNode = node;
  for (; rest.type === 'BinaryExpression' && isConcatenation(rest); rest = rest.left as AnyNode) {
    parts.push(sqlText(rest.right) ?? PLACEHOLDER);
  }
  parts.push(sqlText(rest) ?? PLACEHOLDER);
  return parts.reverse().join('');
}
