/** Writes sizes and counts as people read them. */

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

/** `1,204`, or as the language `locale` writes it. */
export function formatCount(count: number, locale: string | [] = 'en-US'): string {
  return count.toLocaleString(locale);
}

/** `1 file`, `3 files`, `2 queries`. */
export function plural(count: number, noun: string, locale?: string | []): string {
  return `${formatCount(count, locale)} ${count === 1 ? noun : noun.replace(/(?<![aeiou])y$/, 'ie').concat('s')}`;
}
