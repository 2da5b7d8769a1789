/** Downloads rows as a CSV file; a second press stops it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { download } from '../../ui/download.ts';
import { notify, notifyProblem } from '../../ui/notice.tsx';
import { Button } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import type { TableCsv } from './csv.ts';

type CsvProps = {
  /** Of the file, without its ending. */
  name: string;
  read(options: { signal: AbortSignal; onRead(rows: number): void }): Promise<TableCsv>;
};

export function CsvButton({ name, read }: CsvProps) {
  const [done, setDone] = useState<number>();
  const reading = useRef<AbortController | null>(null);
  useEffect(() => () => reading.current?.abort(), []);
  const save = async () => {
    const own = new AbortController();
    reading.current = own;
    setDone(0);
    try {
      const { csv, rows, isWhole } = await read({ signal: own.signal, onRead: setDone });
      if (own.signal.aborted) return;
      download(csv, `${name}.csv`);
      if (!isWhole) notify(`The file has the first ${plural(rows, 'row')}. A filter chooses others.`);
    } catch (error) {
      if (!own.signal.aborted) notifyProblem(error);
    } finally {
      if (reading.current === own) reading.current = null;
      if (!own.signal.aborted) setDone(undefined);
    }
  };
  const stop = () => {
    reading.current?.abort();
    setDone(undefined);
  };
  return (
    <Button class="small" title="Download these rows as a CSV file" onClick={done === undefined ? save : stop}>
      {done === undefined ? 'CSV' : `Stop at ${plural(done, 'row')}`}
    </Button>
  );
}
