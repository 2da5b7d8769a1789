/** Resources are what the gateway keeps a list of (resources.ts): reads and draws their lists, finds one by its name, and changes one. */
import type { Query } from '../protocol/http/addresses.ts';
import type { Given } from '../protocol/http/client.ts';
import type { Received, RouteKey, RowIn, Sent } from '../protocol/routes/api.ts';
import { formatBytes, formatCount } from '../protocol/text/units.ts';
import { askFirst, type CommandContext } from './command.ts';
import type { Client } from './gateway/client.ts';
import { listed } from './gateway/received.ts';
import type { Format } from './terminal/style.ts';
import type { Cell, Column } from './terminal/table.ts';
import type { Terminal } from './terminal/terminal.ts';
import { formatAge } from './terminal/units.ts';

/** The rows of a list: those in the `Member` of its answer, or without one the answer itself. */
export type RowOf<Key extends RouteKey, Member extends string = never> = [Member] extends [never]
  ? RowIn<Key>
  : Received<Key> extends { readonly [Name in Member]: readonly (infer Row)[] }
    ? Row
    : never;

/** Where its rows are: the route of its list. `scope` are the names that it lies below: an app, and perhaps a version or a workspace. */
export type Resource<Key extends RouteKey, Member extends string = never> = {
  key: Key;
  params?(...scope: string[]): Sent<Key>['params'];
  /** What is asked for the rows after `last`, and for the first ones; without it, the list has one page. */
  page?(last: RowOf<Key, Member> | undefined): Sent<Key>['query'];
  /** Rows of the one page, unless a command says how many. */
  limit?: number;
} & ([Member] extends [never] ? { member?: never } : { member: Member });

/** What a command line calls a row, and what completion says of it. */
export type Names<Row> = { named(row: Row): [word: string, about: string] };

/** How rows are drawn; `none` is said where there are none. */
export type Table<Row> = { columns: ListColumn<Row>[]; none(...scope: string[]): string };

/** A column with what a row has there. One with `ifAny` is left out where no row has something. */
export type ListColumn<Row> = Exclude<Column, string> & { cell(row: Row, now: number): Cell; ifAny?: true };
type More = Pick<ListColumn<never>, 'squeeze' | 'drop' | 'ifAny'>;

/** A text, or one with a format. */
export function text<Row>(title: string, of: (row: Row, now: number) => Cell, more: More = {}): ListColumn<Row> {
  return { title, cell: of, ...more };
}

/** The text that names a row. */
export function name<Row>(title: string, of: (row: Row) => string, more: More = {}): ListColumn<Row> {
  return text(title, (row) => ({ text: of(row), format: 'bold' }), more);
}

export function count<Row>(title: string, of: (row: Row) => number, more: More = {}): ListColumn<Row> {
  return { title, align: 'right', cell: (row) => formatCount(of(row)), ...more };
}

export function size<Row>(title: string, of: (row: Row) => number, more: More = {}): ListColumn<Row> {
  return { title, align: 'right', cell: (row) => formatBytes(of(row)), ...more };
}

/** How long ago a time was; `never` where there is none. */
export function age<Row>(
  title: string,
  of: (row: Row) => number | null,
  { never = '', format = () => 'dim', ...more }: More & { never?: string; format?: (ms: number) => Format } = {},
): ListColumn<Row> {
  const cell = (at: number | null, now: number): Cell =>
    at === null ? { text: never, format: 'dim' } : { text: formatAge(at, now), format: format(now - at) };
  return text(title, (row, now) => cell(of(row), now), more);
}

/** Every row, page by page. */
export async function readAll<Key extends RouteKey, Member extends string = never>(
  client: Client,
  resource: Resource<Key, Member>,
  scope: string[] = [],
  timeoutMs?: number,
): Promise<RowOf<Key, Member>[]> {
  return (await readList(client, resource, scope, undefined, timeoutMs)).rows;
}

/** Every row, or those that `query` asks for, with the whole answer. */
export async function readList<Key extends RouteKey, Member extends string = never>(
  client: Client,
  { key, params, page, limit, member }: Resource<Key, Member>,
  scope: string[] = [],
  query?: Sent<Key>['query'],
  timeoutMs?: number,
): Promise<{ rows: RowOf<Key, Member>[]; answer: Received<Key> }> {
  type Row = RowOf<Key, Member>;
  let answer: unknown;
  const read = async (last?: Row): Promise<Row[]> => {
    const given = query as Query | undefined;
    const asked = page === undefined ? { ...given, limit: given?.limit ?? limit } : { ...given, ...page(last) };
    const sent = { params: params?.(...scope), query: asked };
    answer = await client.call(key, ...([sent, { timeoutMs }] as unknown as Given<Key>));
    return listed(member === undefined ? answer : (answer as Record<string, unknown>)[member]) as Row[];
  };
  const rows = page === undefined ? await read() : await client.pages(read);
  return { rows, answer: (member === undefined ? rows : { ...(answer as object), [member]: rows }) as Received<Key> };
}

/** The row of this id. */
export async function find<Key extends RouteKey, Member extends string = never>(
  client: Client,
  resource: Resource<Key, Member> & Names<RowOf<Key, Member>>,
  id: string,
): Promise<RowOf<Key, Member> | undefined> {
  return (await readAll(client, resource)).find((row) => resource.named(row)[0] === id);
}

/** Prints rows: a table, a note when there are none, or with `--json` the `answer`. */
export function showList<Row>(
  terminal: Terminal,
  { columns, none }: Table<Row>,
  rows: Row[],
  { scope = [], answer = rows }: { scope?: string[]; answer?: unknown } = {},
): void {
  terminal.answer(answer, () => {
    if (rows.length === 0) terminal.note(none(...scope));
    else terminal.table(...tableOf(columns, rows));
  });
}

/** The columns that have something, and the cells of the rows. */
export function tableOf<Row>(columns: ListColumn<Row>[], rows: Row[]): [Column[], Cell[][]] {
  const now = Date.now();
  const shown = columns
    .map((column) => ({ column, cells: rows.map((row) => column.cell(row, now)) }))
    .filter(({ column, cells }) => column.ifAny !== true || cells.some((cell) => cell !== ''));
  return [shown.map(({ column }) => column), rows.map((_, i) => shown.map(({ cells }) => cells[i] as Cell))];
}

type Change<Answer> = {
  call(client: Client): Promise<Answer>;
  question?: string | undefined;
  /** What is said when it is done, in a line with notes below it. */
  done: string | ((answer: Answer) => string);
  notes?: string[];
  /** How to undo it, or what to do next. */
  hint?: string | undefined;
};

/** Changes one thing, such as removing or restoring it: asks the `question` if there is one, calls the gateway, and says what it did. */
export async function change<Answer>(context: CommandContext, asked: Change<Answer>): Promise<void> {
  const { terminal, connect } = context;
  const { call, question, done, notes = [], hint } = asked;
  const client = connect();
  if (question !== undefined) await askFirst(context, question);
  const answer = await call(client);
  terminal.answer(answer, () => {
    terminal.done(typeof done === 'string' ? done : done(answer));
    for (const note of notes) terminal.note(note);
    if (hint !== undefined) terminal.hint(hint);
  });
}
