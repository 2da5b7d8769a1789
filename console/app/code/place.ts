/** The line that the address of the Code view names, with `line` and `column` beside its `file`. */
import { useMemo } from 'preact/hooks';
import { useAddress } from '../../address.ts';

/** The same object until the address names another place; null where it names none. */
export function useNamedPlace(): { line: number; column: number } | null {
  const { query } = useAddress();
  const [file, line, column] = ['file', 'line', 'column'].map((name) => query.get(name) ?? '');
  return useMemo(
    () => (Number(line) >= 1 ? { line: Number(line), column: Number(column) || 1 } : null),
    [file, line, column],
  );
}
