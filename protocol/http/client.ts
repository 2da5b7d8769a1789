/** What every client of the gateway does alike: reads whole lists, finds the error in an answer, and writes sizes. */
import type { ErrorBody } from '../errors.ts';

/** Most rows of a page, and as many as there are unless a client asks for fewer. */
export const PAGE_ROWS = 500;

/** Every row, page by page: `read` gets the last row of the page before. A page that is not full is the last. */
export async function allRows<Row>(read: (last: Row | undefined) => Promise<Row[]>): Promise<Row[]> {
  let rows: Row[] = [];
  for (;;) {
    const page = await read(rows.at(-1));
    rows = rows.concat(page);
    if (page.length < PAGE_ROWS) return rows;
  }
}

/** Undefined for an answer of another program, such as a proxy. */
export function errorIn(answer: unknown): ErrorBody | undefined {
  const error = (answer as { error?: ErrorBody } | null | undefined)?.error;
  return typeof error?.code === 'string' && typeof error.message === 'string' ? error : undefined;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `0 B`, `38.2 KiB`, `12 MiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(unit === 0 || value >= 100 ? 0 : 1))} ${UNITS[unit]}`;
}
