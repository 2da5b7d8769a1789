/** Whether SQL text of a handler writes, read as SQLite's tokenizer reads it. */
import { type Token, type TokenizedStatement, tokenizedStatements } from '../sql.ts';

/** Stands in SQL for what a template or a concatenation puts there when the handler runs. */
export const PLACEHOLDER = ' _ ';

const WRITES = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE', 'CREATE', 'DROP', 'ALTER']);
const READS = new Set(['SELECT', 'VALUES']);
const SCHEMA_OBJECTS = new Set(['TABLE', 'INDEX', 'VIEW', 'TRIGGER', 'TEMP', 'TEMPORARY', 'UNIQUE', 'VIRTUAL']);

/**
 * The keyword of the first statement that writes, or null. Text that is not known to be SQL must look like a whole
 * statement (`whole`): "Delete" alone may be the label of a button.
 */
export function writingKeyword(text: string, { whole }: { whole: boolean }): string | null {
  for (const statement of tokenizedStatements(text)) {
    const tokens = mainTokens(statement);
    const keyword = tokens[0]?.kind === 'word' ? tokens[0].name : '';
    if (WRITES.has(keyword) && (!whole || isWhole(keyword, tokens))) return keyword;
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

function isWhole(keyword: string, tokens: Token[]): boolean {
  const second = tokens[1]?.name ?? '';
  switch (keyword) {
    case 'INSERT':
      return second === 'INTO' || (second === 'OR' && tokens[3]?.name === 'INTO');
    case 'REPLACE':
      return second === 'INTO';
    case 'DELETE':
      return second === 'FROM';
    case 'UPDATE':
      return tokens.some((token, i) => token.name === 'SET' && token.kind === 'word' && isAssignment(tokens, i + 1));
    default:
      return SCHEMA_OBJECTS.has(second);
  }
}

/** `a = …`, `(a, b) = …`, or something that is put there. */
function isAssignment(tokens: Token[], at: number): boolean {
  const name = tokens[at]?.name;
  return name === PLACEHOLDER.trim() || name === '(' || tokens[at + 1]?.name === '=';
}
