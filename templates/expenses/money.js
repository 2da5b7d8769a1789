/** Amounts and months as people write and read them. Amounts are whole cents. */

/** `12`, `12.5` or `12,50` → cents; null for anything else, and for nothing. */
export function toCents(text) {
  const [, whole, part = ''] = /^\s*(\d{1,8})(?:[.,](\d{1,2}))?\s*$/.exec(text) ?? [];
  if (whole === undefined) return null;
  const cents = Number(whole) * 100 + Number(part.padEnd(2, '0'));
  return cents > 0 && cents <= 10_000_000_00 ? cents : null;
}

/** As it is typed: `12.50`. */
export const toText = (cents) => `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;

export const money = (currency) => {
  const format = new Intl.NumberFormat(undefined, { style: 'currency', currency });
  return (cents) => format.format(cents / 100);
};

const two = (number) => String(number).padStart(2, '0');
export const toMonth = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}`;
export const toDay = (date) => `${toMonth(date)}-${two(date.getDate())}`;
/** At noon, so that no change of clocks moves the day. */
export const dateOf = (day) => new Date(`${day}T12:00:00`);

export function shiftMonth(month, by) {
  const date = dateOf(`${month}-01`);
  date.setMonth(date.getMonth() + by);
  return toMonth(date);
}

/** One file of CSV (RFC 4180). A cell that a spreadsheet would take for a formula gets an apostrophe. */
export function toCsv(rows) {
  const cell = (value) => {
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
