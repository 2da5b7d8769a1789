/** The rule of queries: no statement in their text writes (specification, "Tool kinds"). */
import type { AnyNode, Program } from 'acorn';
import { ancestor } from 'acorn-walk';
import { type Finding, QUERY_RULE, type Reach } from './rules.ts';
import { isOwn, type Scope, type Scopes, staticKey } from './scopes.ts';
import { PLACEHOLDER, writingKeyword } from './sql-writes.ts';
import { Values } from './values.ts';

/** What runs or prepares SQL, on `db`, on a transaction, or under a name of the handler's own. */
const SQL_METHODS = new Set(['run', 'get', 'all', 'exec', 'prepare', 'batch']);
const DB_METHODS = new Set([...SQL_METHODS, 'transaction']);

/** Through these a value reaches the call that it is an argument of. */
const TRANSPARENT = new Set<AnyNode['type']>([
  'ArrayExpression',
  'AssignmentExpression',
  'ChainExpression',
  'ConditionalExpression',
  'LogicalExpression',
  'SequenceExpression',
  'SpreadElement',
  'TaggedTemplateExpression',
]);

const inQueries = ({ query, action, automation }: Reach): boolean => query && !action && !automation;

/** A text that writes; one that is `whole` looks like a statement to whoever does not know that it is SQL. */
type Writing = { keyword: string; isWhole: boolean };

/**
 * Every finding, in no order; `isQuery` says that the file is a query's own handler, which is one whoever imports it. A
 * finding stands where the SQL text begins. `step` is called as `Values` says.
 */
export function checkReadOnly(program: Program, scopes: Scopes, isQuery: boolean, step: () => void): Finding[] {
  const found = new Map<number, Finding>();
  const writing = new Map<AnyNode, Writing>();

  const report = (node: AnyNode, isSql: boolean): void => {
    const text = writing.get(node);
    if (text === undefined || !(isSql || text.isWhole) || found.has(node.start)) return;
    const message =
      `A query must not write, and this statement does (${text.keyword}): no page would hear of the change. ` +
      `Move it to an action, or give the reason in a comment: // governance: allow-${QUERY_RULE} <reason>.`;
    found.set(node.start, { rule: QUERY_RULE, at: node.start, message, ...(isQuery ? {} : { applies: inQueries }) });
  };

  const judgeText = (node: AnyNode, _: unknown, ancestors: AnyNode[]): void => {
    const parent = ancestors.at(-2);
    // A concatenation is judged as a whole.
    if (parent !== undefined && isConcatenation(parent)) return;
    const text = sqlText(node);
    const keyword = text === null ? null : writingKeyword(text, { whole: false });
    if (text === null || keyword === null) return;
    writing.set(node, { keyword, isWhole: writingKeyword(text, { whole: true }) !== null });
    const use = useOf(ancestors, scopes.at(ancestors));
    if (use !== null) report(node, use === 'sql');
  };
  ancestor(program, { Literal: judgeText, TemplateLiteral: judgeText, BinaryExpression: judgeText });
  if (writing.size === 0) return [];

  const values = new Values(program, scopes, step, report);
  const judgeName = (node: AnyNode, _: unknown, ancestors: AnyNode[]): void => {
    const parent = ancestors.at(-2);
    // Of `a.b` only the part b of a is meant.
    if (parent?.type === 'MemberExpression' && parent.object === node) return;
    const scope = scopes.at(ancestors);
    const use = useOf(ancestors, scope);
    if (use !== null) values.follow(node, scope, use === 'sql');
  };
  ancestor(program, { Identifier: judgeName, MemberExpression: judgeName });
  return [...found.values()];
}

/** How a text is used: as the SQL of a call to `db`, as an argument that may be SQL, or neither. */
function useOf(ancestors: AnyNode[], scope: Scope): 'sql' | 'argument' | null {
  let isDirect = true;
  let isPassed = true;
  for (let i = ancestors.length - 2; i >= 0; i--) {
    const node = ancestors[i] as AnyNode;
    const inner = ancestors[i + 1] as AnyNode;
    if ((node.type === 'CallExpression' || node.type === 'NewExpression') && node.callee !== inner) {
      const { method, isDb } = calleeOf(node.callee);
      if (isDb && DB_METHODS.has(method)) {
        return isDirect && method !== 'batch' && node.arguments[0] === inner ? 'sql' : 'argument';
      }
      if (isDirect && SQL_METHODS.has(method)) return 'argument';
      if (isPassed && isOwn(node.callee, scope)) return 'argument';
    }
    isDirect &&= TRANSPARENT.has(node.type);
    isPassed &&= isDirect || node.type === 'ObjectExpression' || node.type === 'Property';
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
