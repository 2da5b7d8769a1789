/**
 * Makes the JSON of a query's rows inside SQLite, without an object per row, for `db.json()` (specification,
 * "Database of an app").
 */
import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import type Sqlite from 'better-sqlite3';
import { LIMITS } from '../../../protocol/limits.ts';
import { tokenizedStatements } from '../../../protocol/rules/sql.ts';
import type { Row, SqlParams } from '../../../protocol/wire/frames.ts';
import { bindIntegers, type RowStatement } from '../../writer/statements.ts';
import { rowsToJson } from '../result.ts';
import { limitOf } from './limit-parameters.ts';

/** A column, and the kinds of its values so far: texts, integers, nulls. */
type Column = { name: string; text: boolean; integer: boolean; null: boolean };

type Wrapped = {
  statement: RowStatement;
  /** The same without an added limit, for runs whose parameter `limit` is low enough. */
  limited: RowStatement;
  /** Returns the value of the final `LIMIT`; undefined unless it is a parameter. */
  limitOf: (params: SqlParams) => unknown;
  /** The schema that the names of its columns come from. */
  schema: number;
};

/** After this many runs that needed `all`, it always uses `all`. */
const STRIKES = 3;

/** Larger integers are texts in JSON. */
const SAFE = Number.MAX_SAFE_INTEGER;

// App code could replace them.
const { entries } = Object;

/**
 * One statement. The first run uses `all`, which shows the kinds of the columns. Later SQLite makes the JSON, in a statement
 * around the app's own that checks for values that SQLite writes differently; such rows are left to `all`.
 */
export class JsonStatement {
  readonly #db: Sqlite.Database;
  readonly #plain: RowStatement;
  readonly #all: (params: SqlParams) => Row[];
  readonly #schema: RowStatement;
  #columns: Column[] | null = null;
  #wrapped: Wrapped | null = null;
  #strikes = 0;

  /** `plain` is a pure read, and `all` gives its rows. */
  constructor(db: Sqlite.Database, plain: RowStatement, all: (params: SqlParams) => Row[]) {
    this.#db = db;
    this.#plain = plain;
    this.#all = all;
    this.#schema = db.prepare<[SqlParams], unknown>('PRAGMA schema_version').pluck().safeIntegers(false);
  }

  /** UTF-8, the same bytes as for the rows of `all`. Throws as that does. */
  run(params: SqlParams): Buffer {
    const wrapped = this.#wrapped;
    if (wrapped !== null) {
      const json = this.#runWrapped(wrapped, bindIntegers(params));
      if (json !== null) return json;
      this.#wrapped = null;
    }
    const rows = this.#strikes < STRIKES ? this.#learnFrom(params) : this.#all(params);
    return rowsToJson(rows);
  }

  #learnFrom(params: SqlParams): Row[] {
    const schema = this.#schema.get([]) as number;
    const rows = this.#all(params);
    if (rows.length === 0) return rows;
    // The names are those of the schema that the rows were read with, if it is the same before and after.
    const columns = columnsOf(this.#plain.columns(), rows, this.#columns);
    if (columns === null) this.#strikes = STRIKES;
    else if (isDeepStrictEqual(columns, this.#columns)) this.#strikes++;
    this.#columns = columns;
    if (this.#strikes < STRIKES && columns !== null && this.#schema.get([]) === schema) {
      this.#wrapped = this.#wrap(columns, schema);
    }
    return rows;
  }

  /** Null when `all` has to run, also to report an error. */
  #runWrapped({ statement, limited, limitOf, schema }: Wrapped, params: SqlParams): Buffer | null {
    const limit = limitOf(params);
    const isLow = typeof limit === 'bigint' && limit >= 0n && limit <= LIMITS.jsonRows;
    try {
      const json = (isLow ? limited : statement).get(params) as Buffer | null;
      // Only afterwards is it certain that the schema was the same.
      if (json === null || this.#schema.get([]) !== schema) return null;
      return isUtf8(json) ? json : Buffer.from(json.toString());
    } catch {
      return null;
    }
  }

  #wrap(columns: Column[], schema: number): Wrapped | null {
    const { source } = this.#plain;
    const [only, second] = tokenizedStatements(source);
    if (only === undefined || second !== undefined) return null;
    try {
      return {
        statement: this.#prepare(columns, `SELECT * FROM (${only.text}\n) LIMIT (SELECT ${LIMITS.jsonRows + 1})`),
        limited: this.#prepare(columns, only.text),
        limitOf: limitOf(only.tokens),
        schema,
      };
    } catch {
      // Not every statement can stand inside another one: PRAGMA, EXPLAIN.
      this.#strikes = STRIKES;
      return null;
    }
  }

  #prepare(columns: Column[], source: string): RowStatement {
    const members = membersOf(columns);
    const shown = [...members.values()];
    const pairs = shown.map((at) => `${sqlText((columns[at] as Column).name)}, c${at}`);
    const checks = shown.map((at) => checkOf(columns[at] as Column, at));
    const texts = shown.filter((at) => columns[at]?.text).map((at) => `ifnull(octet_length(c${at}), 0)`);
    if (texts.length > 0) checks.push(`${texts.join(' + ')} <= ${LIMITS.jsonRowBytes}`);
    const sql = `WITH r(${columns.map((_, at) => `c${at}`)}) AS (${source}\n)
      SELECT CASE WHEN count(*) <= ${LIMITS.jsonRows} THEN CAST(json_group_array(
        CASE WHEN ${checks.join(' AND ')} THEN json_object(${pairs}) ELSE x'' END) AS BLOB) END FROM r`;
    return this.#db.prepare<[SqlParams], unknown>(sql).pluck();
  }
}

/** The columns, with the kinds in `rows` added to the `known` ones; null when SQLite cannot make their JSON. */
function columnsOf(shapes: Sqlite.ColumnDefinition[], rows: Row[], known: Column[] | null): Column[] | null {
  const columns: Column[] = [];
  for (const [at, { name }] of shapes.entries()) {
    // An object takes `__proto__` for something else.
    if (name === '__proto__') return null;
    const before = known?.[at]?.name === name ? known[at] : { text: false, integer: false, null: false };
    const column = { ...before, name };
    for (const row of rows) {
      const value = row[name];
      if (typeof value === 'string') column.text = true;
      else if (value === null) column.null = true;
      else if (typeof value === 'bigint' || Number.isInteger(value)) column.integer = true;
      // SQLite writes numbers with a point, and blobs, in another way.
      else return null;
    }
    columns.push(column);
  }
  return columns;
}

/** The members of a row's object in their order, each with the column whose value it has. */
function membersOf(columns: Column[]): Map<string, number> {
  const members: Record<string, number> = {};
  for (const [at, { name }] of columns.entries()) members[name] = at;
  return new Map(entries(members));
}

/** In SQL, whether a value is of a kind that its column held and that SQLite writes as we do. An empty blob fails later. */
function checkOf(column: Column, at: number): string {
  const kinds = [];
  if (column.text) kinds.push(`c${at} BETWEEN '' AND x''`);
  if (column.integer) kinds.push(`typeof(c${at}) = 'integer' AND c${at} BETWEEN -${SAFE} AND ${SAFE}`);
  if (column.null) kinds.push(`c${at} IS NULL`);
  return `(${kinds.join(' OR ')})`;
}

function sqlText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
