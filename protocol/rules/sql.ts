/**
 * Splits SQL text into statements as SQLite's own tokenizer does, and refuses what an app may not run (specification,
 * "Database of an app" and "Migrations"). Pure; callers keep the answer, so it runs once per distinct text.
 */
import { LIMITS } from '../limits.ts';

/** `keyword` is the first one in upper case (of the explained statement after EXPLAIN); `line` counts from 1. */
type Statement = { text: string; keyword: string; line: number };

/** Why a text is refused. `code` is SQLite's name for it. */
type Refusal = { code: 'SQLITE_AUTH' | 'SQLITE_TOOBIG' | 'SQLITE_ERROR'; message: string; line: number };

/** `name` of a word is upper case, of a quoted one what stands between the quotes. */
export type Token = { kind: 'word' | 'quoted' | 'string' | 'other'; name: string; start: number; end: number };

type TokenizedStatement = Statement & { tokens: Token[]; keywordAt: number };

/** Informational PRAGMAs; the second ones could change something when given an argument. */
const PRAGMAS = new Set(
  (
    'TABLE_INFO TABLE_XINFO TABLE_LIST INDEX_LIST INDEX_INFO INDEX_XINFO FOREIGN_KEY_LIST FOREIGN_KEY_CHECK ' +
    'INTEGRITY_CHECK QUICK_CHECK'
  ).split(' '),
);
const PRAGMAS_TO_READ = new Set(
  (
    'PAGE_COUNT PAGE_SIZE FREELIST_COUNT DATA_VERSION ENCODING COMPILE_OPTIONS COLLATION_LIST FUNCTION_LIST MODULE_LIST ' +
    'USER_VERSION SCHEMA_VERSION FOREIGN_KEYS JOURNAL_MODE'
  ).split(' '),
);
/** In effect until the migration's own commit, so it cannot reach another caller's statements. */
const MIGRATION_PRAGMAS = new Set(['DEFER_FOREIGN_KEYS']);

const TRANSACTION_CONTROL = new Set(['BEGIN', 'COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE']);
/** `UNIQUE INDEX IF NOT EXISTS` and the schema come before its dot. */
const MOST_BEFORE_SCHEMA = 6;
/** Functions, by name, quoted or not: the first loads code, the second reads and sets addresses in memory. */
const FORBIDDEN_FUNCTIONS = new Set(['LOAD_EXTENSION', 'FTS3_TOKENIZER']);
/** A table that names files of this machine. SQLite takes a text for its name in several places, so none may be it. */
const FORBIDDEN_TABLE = 'PRAGMA_DATABASE_LIST';

/** The statements of a text. Empty ones and comments are left out; a trigger with its body is one statement. */
export function splitStatements(sql: string): Statement[] {
  return tokenizedStatements(sql).map(({ text, keyword, line }) => ({ text, keyword, line }));
}

/** Checks SQL of a handler before SQLite sees it: null when it is allowed. */
export function refuseUnsafe(sql: string): Refusal | null {
  if (Buffer.byteLength(sql) > LIMITS.sqlBytes) {
    return { code: 'SQLITE_TOOBIG', message: `The SQL text is over the limit of ${LIMITS.sqlBytes} bytes.`, line: 1 };
  }
  return refuse(sql, 'Use db.transaction() or db.batch() instead.', false);
}

/** The same for a migration file; only the limit of files applies to its length. */
export function refuseMigration(sql: string): Refusal | null {
  return refuse(sql, 'All pending migrations run in one transaction already; leave it out.', true);
}

function refuse(sql: string, insteadOfTransaction: string, isMigration: boolean): Refusal | null {
  // SQLite stops reading at a NUL; so nothing after one counts as part of the text.
  if (sql.includes('\0')) return { code: 'SQLITE_ERROR', message: 'The SQL text holds a NUL character.', line: 1 };
  for (const statement of tokenizedStatements(sql)) {
    const message =
      refusedKeyword(statement.keyword, insteadOfTransaction) ??
      (statement.keyword === 'PRAGMA' ? refusedPragma(statement, isMigration) : null) ??
      (statement.keyword === 'CREATE' && !isMigration ? refusedTemporary(statement) : null) ??
      refusedInside(statement.tokens);
    if (message !== null) return { code: 'SQLITE_AUTH', message, line: statement.line };
  }
  return null;
}

function refusedKeyword(keyword: string, insteadOfTransaction: string): string | null {
  if (keyword === 'ATTACH' || keyword === 'DETACH')
    return `${keyword} is refused: an app works on its own database only.`;
  if (keyword === 'VACUUM') return 'VACUUM is refused: it cannot run beside other writes and could write other files.';
  if (TRANSACTION_CONTROL.has(keyword)) return `${keyword} is refused. ${insteadOfTransaction}`;
  return null;
}

function refusedPragma({ tokens, keywordAt }: TokenizedStatement, isMigration: boolean): string | null {
  const rest = tokens.slice(keywordAt + 1);
  const schemaGiven = rest[1]?.name === '.';
  const pragma = rest[schemaGiven ? 2 : 0]?.name.toUpperCase() ?? '';
  const hasArgument = rest.length > (schemaGiven ? 3 : 1);
  if (PRAGMAS.has(pragma) || (isMigration && MIGRATION_PRAGMAS.has(pragma))) return null;
  if (!PRAGMAS_TO_READ.has(pragma))
    return `PRAGMA ${pragma.toLowerCase()} is refused: it is not one of the informational ones.`;
  return hasArgument ? `PRAGMA ${pragma.toLowerCase()} can be read here, but not set.` : null;
}

/** The writer's connection lasts: what is temporary there would hide the app's own tables from its later statements. */
function refusedTemporary({ tokens, keywordAt }: TokenizedStatement): string | null {
  const rest = tokens.slice(keywordAt + 1);
  const name = rest.findIndex((token) => token.name === '.');
  const schema = name < 0 || name > MOST_BEFORE_SCHEMA ? '' : (rest[name - 1]?.name.toUpperCase() ?? '');
  const isTemporary = rest[0]?.name === 'TEMP' || rest[0]?.name === 'TEMPORARY' || schema === 'TEMP';
  return isTemporary
    ? 'Temporary tables, views and triggers are refused: they would outlive the statement. Use a CTE.'
    : null;
}

/** What is refused anywhere in a statement, such as in a trigger's body. */
function refusedInside(tokens: Token[]): string | null {
  for (const [i, token] of tokens.entries()) {
    const name = token.name.toUpperCase();
    const isCalled = token.kind !== 'string' && tokens[i + 1]?.name === '(';
    if (name === FORBIDDEN_TABLE || (isCalled && FORBIDDEN_FUNCTIONS.has(name)))
      return `${name.toLowerCase()} is refused.`;
    if (token.kind === 'word' && name === 'ROLLBACK' && isConflictResolution(tokens, i)) {
      return 'ROLLBACK on a conflict is refused: it would undo the writes of other callers. Use ABORT.';
    }
  }
  return null;
}

/** What a statement does to more than the rows that it names: `DROP`, or `DELETE` and `UPDATE` without `WHERE`. Null for others. */
export function keywordWithoutWhere(sql: string): 'DROP' | 'DELETE' | 'UPDATE' | null {
  for (const { tokens, keyword, keywordAt } of tokenizedStatements(sql)) {
    // A statement that is only explained does nothing.
    if (keywordAt > 0) continue;
    const words = topWords(tokens);
    const does = keyword === 'WITH' ? words.find((word) => DOES.has(word)) : keyword;
    if (does === 'DROP' || (does === 'ALTER' && words.includes('DROP'))) return 'DROP';
    if ((does === 'DELETE' || does === 'UPDATE') && !words.includes('WHERE')) return does;
  }
  return null;
}

/** Whether a statement may change something, as far as its words tell: all but those that only read. */
export function mayWrite(sql: string): boolean {
  return tokenizedStatements(sql).some(({ tokens, keyword, keywordAt }) => {
    const does = keyword === 'WITH' ? topWords(tokens).find((word) => DOES.has(word)) : keyword;
    return keywordAt === 0 && !READS.has(does ?? '');
  });
}

/** PRAGMAs that set something are refused. */
const READS = new Set(['SELECT', 'VALUES', 'PRAGMA']);

/** What may follow the tables of a `WITH`. */
const DOES = new Set(['SELECT', 'VALUES', 'INSERT', 'REPLACE', 'UPDATE', 'DELETE']);

/** The words outside parentheses. */
function topWords(tokens: Token[]): string[] {
  let depth = 0;
  const words: string[] = [];
  for (const { kind, name } of tokens) {
    if (kind === 'other' && name === '(') depth++;
    else if (kind === 'other' && name === ')') depth--;
    else if (kind === 'word' && depth === 0) words.push(name);
  }
  return words;
}

/** `INSERT OR ROLLBACK`, `UPDATE OR ROLLBACK`, `ON CONFLICT ROLLBACK`, `RAISE(ROLLBACK, …)`. */
function isConflictResolution(tokens: Token[], i: number): boolean {
  const before = tokens[i - 1]?.name;
  const beforeThat = tokens[i - 2]?.name;
  if (before === 'OR') return beforeThat === 'INSERT' || beforeThat === 'UPDATE';
  if (before === 'CONFLICT') return beforeThat === 'ON';
  return before === '(' && beforeThat === 'RAISE';
}

/** The same with their tokens; `keywordAt` is the index of the keyword among them. */
export function tokenizedStatements(sql: string): TokenizedStatement[] {
  const statements: TokenizedStatement[] = [];
  let tokens: Token[] = [];
  let line = 1;
  let counted = 0;

  const finish = (): void => {
    const first = tokens[0];
    if (first === undefined) return;
    for (; counted < first.start; counted++) if (sql[counted] === '\n') line++;
    const keywordAt = explainedAt(tokens);
    const keyword = tokens[keywordAt]?.kind === 'word' ? (tokens[keywordAt]?.name ?? '') : '';
    const end = tokens.at(-1)?.end ?? first.end;
    statements.push({ text: sql.slice(first.start, end), keyword, line, tokens, keywordAt });
    tokens = [];
  };

  let inBody = false;
  for (const token of tokenize(sql)) {
    if (token.name === ';' && token.kind === 'other' && !inBody) {
      finish();
      continue;
    }
    const previous = tokens.at(-1);
    tokens.push(token);
    if (token.kind !== 'word') continue;
    if (token.name === 'BEGIN' && isTrigger(tokens)) inBody = true;
    // A body's END follows the `;` of its last statement; the END of a CASE never does.
    if (token.name === 'END' && previous?.name === ';' && previous.kind === 'other') inBody = false;
  }
  finish();
  return statements;
}

/** Index of the keyword that says what the statement does: behind EXPLAIN [QUERY PLAN]. */
function explainedAt(tokens: Token[]): number {
  if (tokens[0]?.name !== 'EXPLAIN') return 0;
  return tokens[1]?.name === 'QUERY' && tokens[2]?.name === 'PLAN' ? 3 : 1;
}

function isTrigger(tokens: Token[]): boolean {
  const at = explainedAt(tokens);
  if (tokens[at]?.name !== 'CREATE') return false;
  const next = tokens[at + 1]?.name;
  return next === 'TRIGGER' || ((next === 'TEMP' || next === 'TEMPORARY') && tokens[at + 2]?.name === 'TRIGGER');
}

// The rules below are those of sqlite3GetToken: if this read a text differently, a statement could escape the check.
const SPACE = /[\t\n\v\f\r \uFEFF]+/y;
const WORD = /[A-Za-z_\u0080-\uFFFF][\w$\u0080-\uFFFF]*/y;
const NUMBER = /\.?\d[\w.]*/y;
/** `$name(…)` and `$a::b` are TCL's; what stands in the parentheses is part of the name, quotes included. */
const PARAMETER = /\?\d*|[@#:$](?:[\w$\u0080-\uFFFF]|::)+(?:\([^)\t\n\v\f\r ]*\)?)?/y;
const LINE_COMMENT = /--[^\n]*/y;
const BLOCK_COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/y;
const STRING = /'[^']*(?:''[^']*)*(?:'|$)/y;
const QUOTED = /"[^"]*(?:""[^"]*)*(?:"|$)|`[^`]*(?:``[^`]*)*(?:`|$)|\[[^\]]*(?:\]|$)/y;

function* tokenize(sql: string): Generator<Token> {
  let at = 0;
  const match = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    return pattern.exec(sql)?.[0] ?? null;
  };
  while (at < sql.length) {
    const blank = match(SPACE) ?? match(LINE_COMMENT) ?? match(BLOCK_COMMENT);
    if (blank !== null) {
      at += blank.length;
      continue;
    }
    const token = nextToken(match, sql[at] as string);
    yield { kind: token.kind, name: token.name, start: at, end: at + token.length };
    at += token.length;
  }
}

function nextToken(
  match: (pattern: RegExp) => string | null,
  char: string,
): { kind: Token['kind']; name: string; length: number } {
  const word = match(WORD);
  if (word !== null) return { kind: 'word', name: word.toUpperCase(), length: word.length };
  const string = match(STRING);
  if (string !== null) return { kind: 'string', name: string.slice(1, -1), length: string.length };
  const quoted = match(QUOTED);
  if (quoted !== null) return { kind: 'quoted', name: quoted.slice(1, -1), length: quoted.length };
  const rest = match(NUMBER) ?? match(PARAMETER) ?? char;
  return { kind: 'other', name: rest, length: rest.length };
}
