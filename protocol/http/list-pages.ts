/** Reads whole lists, page by page. */

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
