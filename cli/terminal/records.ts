/** Rows of values (from a query or from SQL) as a table. */

import type { Cell } from './table.ts';
import type { Terminal } from './terminal.ts';

export type Scalar = string | number | boolean | null;
export type Row = Record<string, Scalar>;

/** A table is easier to read than JSON when every entry is a flat object. */
export function isRecords(value: unknown): value is Row[] {
  return Array.isArray(value) && value.length > 0 && value.every(isRow);
}

function isRow(value: unknown): value is Row {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const members = Object.values(value);
  return members.length > 0 && members.every((member) => member === null || typeof member !== 'object');
}

export function drawRecords(terminal: Terminal, rows: Row[]): void {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  drawRows(
    terminal,
    names,
    rows.map((row) => names.map((name) => row[name])),
  );
}

/** Numbers stand to the right when their whole column is numbers. */
export function drawRows(terminal: Terminal, names: string[], rows: unknown[][]): void {
  const numeric = names.map(
    (_, i) => rows.some((row) => row[i] !== null) && rows.every((row) => row[i] === null || typeof row[i] === 'number'),
  );
  terminal.table(
    names.map((name, i) => ({ title: name, align: numeric[i] ? 'right' : 'left' })),
    rows.map((row) => names.map((_, i) => drawValue(row[i]))),
  );
}

function drawValue(value: unknown): Cell {
  if (value === undefined) return '';
  if (value === null) return { text: 'null', format: 'dim' };
  return typeof value === 'string' ? value : JSON.stringify(value);
}
