/** Whether SQL text of a handler writes, read as SQLite's tokenizer reads it. */
import { type Token, type TokenizedStatement, tokenizedStatements } from '../sql.ts';

/** Stands in SQL for what a template or a concatenation puts there when the handler runs. */
export const PLACEHOLDER = ' _ ';

/** Of what a handler may run at all: `refuseUnsafe` lets no VACUUM through, and no PRAGMA that sets something. */
const WRITES = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE', 'CREATE', 'DROP', 'ALTER', 'REINDEX', 'ANALYZE']);
const READS = new Set(['SELECT', 'VALUES']);
const SCHEMA_OBJECTS = new Set(['TABLE', 'INDEX', 'VIEW', 'TRIGGER']);
const KINDS_OF_OBJECTS = new Set(['TEMP', 'TEMPORARY', 'UNIQUE', 'VIRTUAL']);
/** What follows the table that rows go into or are deleted from. */
const BEHIND_TABLE = new Set([
  ...['(', 'VALUES', 'SELECT', 'WITH', 'DEFAULT', 'WHERE', 'INDEXED', 'NOT', 'RETURNING', 'ORDER', 'LIMIT'],
  PLACEHOLDER.trim(),
]);

/**
 * The keyword of the first statement that writes, or null. Text that is not known to be SQL must look like a whole
 * statement (`whole`): "Delete" alone may be the label of a button.
 */
export function writingKeyword(text: string, { whole }: { whole: boolean }): string | null {
  for (const statement of tokenizedStatements(text)) {
    const tokens = mainTokens(statement);
    const keyword = tokens[0]?.kind === 'word' ? tokens[0].name : '';
    if (!WRITES.has(keyword)) continue;
    // Behind something else it may go on with what that began, such as replace(a, b, c) behind SELECT.
    const isFirst = tokens[0] === statement.tokens[0] || statement.keyword === 'WITH';
    if ((isFirst && !whole) || isWhole(keyword, tokens, text)) return keyword;
  }
  return null;
}

/** From the keyword that says what the statement does: behind WITH and what a handler puts first; none of EXPLAIN. */
function mainTokens({ tokens, keyword }: TokenizedStatement): Token[] {
  if (tokens[0]?.name === 'EXPLAIN') return [];
  if (keyword === 'WITH') return tokens.slice(behindWith(tokens));
  const first = tokens.findIndex((token) => token.name !== PLACEHOLDER.trim());
  return tokens.slice(first === -1 ? tokens.length : first);
}

/** The statement follows the `)` of the last common table expression. */
function behindWith(tokens: Token[]): number {
  let depth = 0;
  for (const [i, token] of tokens.entries()) {
    if (token.kind === 'other' && token.name === '(') depth++;
    if (token.kind === 'other' && token.name === ')') depth--;
    const isVerb = token.kind === 'word' && (WRITES.has(token.name) || READS.has(token.name));
    const before = tokens[i - 1];
    if (depth === 0 && isVerb && before?.kind === 'other' && before.name === ')') return i;
  }
  return tokens.length;
}

function isWhole(keyword: string, tokens: Token[], text: string): boolean {
  const second = tokens[1]?.name ?? '';
  switch (keyword) {
    case 'INSERT':
      return second === 'OR' ? isInto(tokens, 3) : isInto(tokens, 1);
    case 'REPLACE':
      return isInto(tokens, 1);
    case 'DELETE':
      return second === 'FROM' && isTable(tokens, 2);
    case 'REINDEX':
    case 'ANALYZE':
      // "Analyze" alone may be a label, too.
      return text.slice(tokens[0]?.start, tokens[0]?.end) === keyword && (tokens.length === 1 || isName(tokens, 1));
    case 'UPDATE':
      return tokens.some((token, i) => token.name === 'SET' && token.kind === 'word' && isAssignment(tokens, i + 1));
    default:
      return SCHEMA_OBJECTS.has(KINDS_OF_OBJECTS.has(second) ? (tokens[2]?.name ?? '') : second);
  }
}

function isInto(tokens: Token[], at: number): boolean {
  return tokens[at]?.name === 'INTO' && isTable(tokens, at + 1);
}

/** A table, and how a statement goes on behind it: there is none called "the" in "Delete from the list". */
function isTable(tokens: Token[], at: number): boolean {
  let end = at + 1;
  if (tokens[end]?.name === '.') end += 2;
  if (tokens[end]?.name === 'AS') end += 2;
  const next = tokens[end];
  return next === undefined || BEHIND_TABLE.has(next.name) || tokens[at]?.name === PLACEHOLDER.trim();
}

/** Nothing but a name behind this. */
function isName(tokens: Token[], at: number): boolean {
  return tokens.length === at + 1 || (tokens[at + 1]?.name === '.' && tokens.length === at + 3);
}

/** `a = …`, `(a, b) = …`, or something that is put there. */
function isAssignment(tokens: Token[], at: number): boolean {
  const name = tokens[at]?.name;
  return name === PLACEHOLDER.trim() || name === '(' || tokens[at + 1]?.name === '=';
}
