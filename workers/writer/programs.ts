/**
 * Analyses SQLite's own program for a statement (`EXPLAIN`): the tables that it reads and writes, including those of triggers,
 * cascades and views, and whether the same data gives the same rows.
 */
import { splitStatements } from '../../protocol/rules/sql.ts';

export type Program = {
  /** Null when not known. */
  reads: readonly string[] | null;
  /** Null when not known, or when the statement changes the schema. All of them for a virtual table, whose rows may be in any. */
  writes: readonly string[] | null;
  /** It changes rows, and not the schema or the whole file. */
  changesRows: boolean;
  /** Whether it changes a virtual table. */
  isVirtual: boolean;
  /** No step depends on the time, random numbers, or anything but the data. */
  isDeterministic: boolean;
};

export const UNKNOWN_PROGRAM: Program = {
  reads: null,
  writes: null,
  changesRows: false,
  isVirtual: false,
  isDeterministic: false,
};

/** Steps that change the schema or the whole file. */
const STRUCTURAL: ReadonlySet<string> = new Set(
  'SetCookie ParseSchema Destroy CreateBtree SqlExec LoadAnalysis Vacuum IncrVacuum JournalMode Checkpoint'.split(' '),
);
/** Steps that change a virtual table, whose rows are in tables that the program does not name. */
const VIRTUAL = new Set(['VUpdate', 'VBegin', 'VCreate', 'VDestroy', 'VRename']);
/** Steps that call a function, whose name is their fourth operand. */
const CALLS = new Set(['Function', 'PureFunc', 'AggStep', 'AggStep1', 'AggInverse', 'AggValue', 'AggFinal']);

/** Functions whose result depends on their arguments only. Date functions are excluded: any argument may be 'now'. */
const DETERMINISTIC = new Set(
  (
    'abs avg bm25 ceil ceiling char coalesce concat concat_ws count cume_dist dense_rank exp first_value floor format glob ' +
    'group_concat hex highlight if ifnull iif instr json json_array json_array_insert json_array_length json_error_position ' +
    'json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote json_remove ' +
    'json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object ' +
    'jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set lag last_value lead length like likelihood ' +
    'likely ln log log10 log2 lower ltrim match max median min mod nth_value ntile nullif octet_length percent_rank ' +
    'percentile pow power printf quote radians rank replace round row_number rtrim sign snippet soundex sqrt string_agg ' +
    'substr substring subtype sum total trim trunc typeof unhex unicode unistr unistr_quote unlikely upper zeroblob -> ->> ' +
    'acos acosh asin asinh atan atan2 atanh cos cosh degrees pi sin sinh tan tanh'
  ).split(' '),
);

/** Table-valued functions that show more than data. */
const SHOWS_MORE = /pragma_|dbstat|sqlite_|bytecode|tables_used/i;

/** Prepares one of our statements. */
type Prepare = (sql: string) => { raw(): Rows };
type Rows = { all(...params: unknown[]): unknown[] };
type Step = [address: unknown, opcode: string, p1: unknown, p2: unknown, p3: unknown, p4: unknown];
type SchemaRow = [type: string, name: string, table: string, root: unknown, sql: string | null];

/** Never throws: a statement that cannot be explained is unknown. */
export function programOf(prepare: Prepare, sql: string): Program {
  try {
    // Read first, because that is when SQLite notices that the schema has changed; EXPLAIN does not look.
    const schema = prepare('SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema').raw().all() as SchemaRow[];
    const steps = new Steps(sql, schema);
    for (const step of withoutValues(prepare(`EXPLAIN ${sql}`).raw()) as Step[]) steps.add(step);
    return steps.program;
  } catch {
    return UNKNOWN_PROGRAM;
  }
}

/** The rows of a statement whose parameters are all NULL. Their number and names only show in SQLite's errors. */
function withoutValues(statement: Rows): unknown[] {
  const names: Record<string, null> = {};
  let named = false;
  const count = new Guess();
  for (;;) {
    try {
      const values = new Array<null>(count.value).fill(null);
      return named ? statement.all(values, names) : statement.all(values);
    } catch (error) {
      const { message } = error as Error;
      const missing = /^Missing named parameter(?:s$| "(.+)"$)/.exec(message);
      if (missing === null && !count.corrected(message)) throw error;
      if (missing !== null) named = true;
      if (missing?.[1] !== undefined) names[missing[1]] = null;
    }
  }
}

/** The number of parameters, found by halves. */
class Guess {
  value = 0;
  #low = 0;
  #high = Number.POSITIVE_INFINITY;

  /** Handles the error of the last guess; false when it was about something else. */
  corrected(message: string): boolean {
    if (message.startsWith('Too few')) this.#low = this.value + 1;
    else if (message.startsWith('Too many')) this.#high = this.value - 1;
    else return false;
    this.value = Number.isFinite(this.#high) ? Math.floor((this.#low + this.#high) / 2) : this.#low * 2 - 1;
    return this.#low <= this.#high;
  }
}

/** Collects what the steps of a program do. */
class Steps {
  readonly #roots = new Map([[1, 'sqlite_schema']]);
  readonly #tables: string[];
  readonly #reads = new Set<string>();
  readonly #writes = new Set<string>();
  readonly #texts: string[];
  #isDeterministic: boolean;
  #known = true;
  #structural = false;
  #rows = false;
  #virtual = false;

  constructor(sql: string, schema: SchemaRow[]) {
    for (const [, , table, root] of schema) if (Number(root) > 0) this.#roots.set(Number(root), table);
    this.#tables = schema.filter(([type]) => type === 'table').map(([, name]) => name);
    this.#texts = [sql, ...schema.filter(([type]) => type === 'view').map(([, , , , text]) => text ?? '')];
    const statements = splitStatements(sql);
    this.#isDeterministic = statements.length === 1 && statements[0]?.keyword !== 'PRAGMA';
  }

  get program(): Program {
    return {
      reads: this.#known ? [...this.#reads] : null,
      writes: this.#known && !this.#structural ? [...this.#writes] : null,
      changesRows: (this.#rows || this.#virtual) && !this.#structural,
      isVirtual: this.#virtual,
      isDeterministic: this.#isDeterministic && this.#known && !this.#structural,
    };
  }

  add([, opcode, p1, p2, p3, p4]: Step): void {
    switch (opcode) {
      case 'OpenRead':
      case 'ReopenIdx':
        this.#note(this.#reads, p2, p3);
        break;
      case 'OpenWrite':
        this.#rows = true;
        this.#note(this.#writes, p2, p3);
        this.#note(this.#reads, p2, p3);
        break;
      case 'Clear':
        this.#rows = true;
        this.#note(this.#writes, p1, p2);
        break;
      case 'VOpen':
        // Its rows may come from any table, or from none.
        for (const table of this.#tables) this.#reads.add(table);
        if (this.#texts.some((text) => SHOWS_MORE.test(text))) this.#isDeterministic = false;
        break;
      default:
        if (VIRTUAL.has(opcode)) {
          this.#virtual = true;
          for (const table of this.#tables) this.#writes.add(table);
        } else if (STRUCTURAL.has(opcode)) this.#structural = true;
        else if (CALLS.has(opcode) && !DETERMINISTIC.has(String(p4).split('(')[0] as string))
          this.#isDeterministic = false;
    }
  }

  #note(to: Set<string>, root: unknown, database: unknown): void {
    const table = Number(database) === 0 ? this.#roots.get(Number(root)) : undefined;
    if (table === undefined) this.#known = false;
    else to.add(table);
  }
}
