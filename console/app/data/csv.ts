/** Writes rows as CSV (RFC 4180), and reads a whole table for it piece by piece. */
import { GatewayError } from '../../gateway.ts';
import { type Cell, readRows, type SqlRows, type Table, type View } from './tables.ts';

/** Rows of a table in a file at most: they are gathered in the browser. */
const MOST_CSV_ROWS = 200_000;
/** Rows that the gateway answers at most. */
export const MOST_QUERY_ROWS = 10_000;
/** Rows that one request asks for; fewer when they are too large for an answer. */
const ROWS_AT_ONCE = 5000;

/** Codes of an answer that is over a limit, of bytes or of time. */
const TOO_LARGE = new Set(['HANDLER_ERROR', 'BAD_REQUEST']);

/** Programs for tables read UTF-8 only behind this mark. */
const BYTE_ORDER_MARK = '\ufeff';
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/** As these programs take a text: one that begins like a formula would be run, so it gets an apostrophe before it. */
function field(value: Cell): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  // An empty text in quotes is none that is missing.
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const line = (cells: readonly Cell[]): string => `${cells.map(field).join(',')}\r\n`;

export const csvOf = ({ columns, rows }: Pick<SqlRows, 'columns' | 'rows'>): Blob =>
  new Blob([BYTE_ORDER_MARK, line(columns), ...rows.map(line)], { type: 'text/csv' });

/** `isWhole`: there were no more rows. */
export type TableCsv = { csv: Blob; rows: number; isWhole: boolean };

/** The rows that the view shows, in its order, `MOST_CSV_ROWS` of them at most. `onRead` is told how many were read. */
export async function csvOfTable(
  app: string,
  table: Table,
  view: View,
  { signal, onRead }: { signal: AbortSignal; onRead(rows: number): void },
): Promise<TableCsv> {
  // A part each, so that the browser may keep them outside its memory.
  const parts = [csvOf({ columns: table.columns.map(({ name }) => name), rows: [] })];
  let read = 0;
  let size = ROWS_AT_ONCE;
  let isWhole = false;
  while (!isWhole && read < MOST_CSV_ROWS) {
    const place = { offset: read, limit: Math.min(size, MOST_CSV_ROWS - read) };
    try {
      const rows = await readRows(app, table, view, place, signal);
      parts.push(new Blob(rows.map(({ cells }) => line(cells))));
      read += rows.length;
      onRead(read);
      isWhole = rows.length < place.limit;
    } catch (error) {
      const mayBeTooLarge = error instanceof GatewayError && TOO_LARGE.has(error.code) && size > 1;
      if (!mayBeTooLarge) throw error;
      size = Math.ceil(size / 4);
    }
  }
  return { csv: new Blob(parts, { type: 'text/csv' }), rows: read, isWhole };
}
