/**
 * Finds SQL in queries that writes, if the text stands at the call (specification, "Database of an app"). A hint: it does not
 * trace values.
 */
import type { AnyNode, CallExpression, Program } from 'acorn';
import { simple } from 'acorn-walk';
import { type Token, tokenizedStatements } from '../sql.ts';
import { type Finding, QUERY_RULE, type Reach } from './rules.ts';
import { type Names, staticKey } from './syntax.ts';

const SQL_METHODS = new Set(['run', 'get', 'all', 'exec', 'prepare', 'batch']);
/**
 * Statements that write, among those that a handler may run: `refuseUnsafe` refuses VACUUM and a PRAGMA that sets something.
 */
const WRITES = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE', 'CREATE', 'DROP', 'ALTER', 'REINDEX', 'ANALYZE']);
const VERBS = new Set([...WRITES, 'SELECT', 'VALUES']);
/** Placeholder in SQL for a value that a template or concatenation inserts at run time. */
const PLACEHOLDER = ' _ ';

const inQueries = ({ query, action, automation }: Reach): boolean => query && !action && !automation;

/**
 * Every finding, unsorted, at the start of the SQL text. `isQuery`: the file is a query's handler, even if others import it.
 */
export function checkReadOnly(program: Program, names: Names, isQuery: boolean): Finding[] {
  const calls: CallExpression[] = [];
  /** The functions that `db.transaction` calls. */
  const transactions = new Set<unknown>();
  const found = new Map<number, Finding>();

  const isDatabase = (node: AnyNode): boolean => {
    if (node.type === 'MemberExpression') return staticKey(node.property, node.computed) === 'db';
    if (node.type !== 'Identifier') return false;
    const definition = names.definition(node);
    return node.name === 'db' || (definition?.type === 'Parameter' && transactions.has(definition.node));
  };
  /** The method of a database that is called, or ''. */
  const methodOf = ({ callee }: CallExpression): string => {
    if (callee.type !== 'MemberExpression' || !isDatabase(callee.object)) return '';
    return staticKey(callee.property, callee.computed) ?? '';
  };
  /** What a `const` was declared with, or the node itself. */
  const meant = (node: AnyNode): AnyNode => {
    const definition = node.type === 'Identifier' ? names.definition(node) : null;
    if (definition?.type !== 'Variable' || definition.parent.kind !== 'const') return node;
    return definition.node.id.type === 'Identifier' ? ((definition.node.init as AnyNode | null) ?? node) : node;
  };

  simple(program, {
    CallExpression: (call) => {
      calls.push(call);
      if (methodOf(call) === 'transaction') transactions.add(call.arguments[0]);
    },
  });
  for (const call of calls) {
    const method = methodOf(call);
    const [first] = call.arguments;
    if (first === undefined || !SQL_METHODS.has(method)) continue;
    for (const sql of method === 'batch' ? statementsOf(first) : [first]) {
      const node = meant(sql);
      const text = sqlText(node);
      const keyword = text === null ? null : writingKeyword(text);
      if (keyword === null) continue;
      const message =
        `A query must not write, and this statement does (${keyword}): no page would hear of the change. ` +
        `Move it to an action, or give the reason in a comment: // governance: allow-${QUERY_RULE} <reason>.`;
      found.set(node.start, { rule: QUERY_RULE, at: node.start, message, ...(isQuery ? {} : { applies: inQueries }) });
    }
  }
  return [...found.values()];
}

/** The SQL of `[[sql, ...params], …]`. */
function statementsOf(batch: AnyNode): AnyNode[] {
  const rows = batch.type === 'ArrayExpression' ? batch.elements : [];
  return rows.flatMap((row) => (row?.type === 'ArrayExpression' ? (row.elements[0] ?? []) : []));
}

/** A literal, a template or a concatenation as SQL; null for anything else. */
function sqlText(node: AnyNode): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null;
  if (node.type === 'TemplateLiteral') {
    return node.quasis.map(({ value }) => value.cooked ?? value.raw).join(PLACEHOLDER);
  }
  if (node.type !== 'BinaryExpression' || node.operator !== '+') return null;
  return [node.left, node.right].map((part) => sqlText(part) ?? PLACEHOLDER).join('');
}

/** The keyword of the first statement that writes, or null. */
function writingKeyword(text: string): string | null {
  for (const { tokens, keyword } of tokenizedStatements(text)) {
    if (tokens[0]?.name === 'EXPLAIN') continue;
    const verb = keyword === 'WITH' ? verbBehindWith(tokens) : keyword;
    if (WRITES.has(verb)) return verb;
  }
  return null;
}

/** It follows the `)` of the last common table expression. */
function verbBehindWith(tokens: Token[]): string {
  let depth = 0;
  for (const [i, { kind, name }] of tokens.entries()) {
    if (kind === 'other' && name === '(') depth++;
    if (kind === 'other' && name === ')') depth--;
    if (depth === 0 && kind === 'word' && VERBS.has(name) && tokens[i - 1]?.name === ')') return name;
  }
  return '';
}
