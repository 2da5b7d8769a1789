/** The widths of a table's columns in pixels, as somebody has drawn them: kept in the browser, for each table. */
import { useState } from 'preact/hooks';

export const LEAST_PX = 48;
export const MOST_PX = 1600;

export type Widths = Readonly<Record<string, number>>;

/** `set` with null gives a column the width that the grid chooses. */
export function useWidths(
  app: string,
  table: string,
): { widths: Widths; set(column: string, px: number | null): void } {
  const key = `svc-console:widths:${app}/${table}`;
  const [widths, setWidths] = useState(() => read(key));
  const set = (column: string, px: number | null): void =>
    setWidths((known) => {
      const { [column]: _, ...others } = known;
      const next =
        px === null ? others : { ...others, [column]: Math.min(MOST_PX, Math.max(LEAST_PX, Math.round(px))) };
      write(key, next);
      return next;
    });
  return { widths, set };
}

function read(key: string): Widths {
  try {
    const kept = Object.entries(JSON.parse(localStorage.getItem(key) ?? '{}') as Record<string, unknown>);
    return Object.fromEntries(kept.filter((one): one is [string, number] => typeof one[1] === 'number'));
  } catch {
    return {};
  }
}

function write(key: string, widths: Widths): void {
  try {
    localStorage.setItem(key, JSON.stringify(widths));
  } catch {
    // They then last as long as the view.
  }
}
