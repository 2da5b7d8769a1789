/** Adds a row to a table, with a field for each column. */
import { useState } from 'preact/hooks';
import { notify } from '../../ui/notice.tsx';
import { Button, Dialog, Field, Problem } from '../../ui/parts.tsx';
import { addRow, type Cell, type Column, cellOf, type Table } from './tables.ts';

export function AddRow({
  app,
  table,
  onClose,
  onDone,
}: {
  app: string;
  table: Table;
  onClose: () => void;
  onDone: () => void;
}) {
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map());
  const [problem, setProblem] = useState<Error>();
  const [isWaiting, setWaiting] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isWaiting) return;
    setWaiting(true);
    const given = table.columns.flatMap((column): [string, Cell][] => {
      const text = values.get(column.name);
      return text === undefined ? [] : [[column.name, cellOf(text, column)]];
    });
    try {
      await addRow(app, table, new Map(given));
      notify('The row is added.');
      onClose();
      onDone();
    } catch (error) {
      setProblem(error as Error);
      setWaiting(false);
    }
  };
  const set = (name: string, text: string) => {
    const next = new Map(values);
    if (text === '') next.delete(name);
    else next.set(name, text);
    setValues(next);
  };
  return (
    <Dialog title={`Add a row to ${table.name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {table.columns
          .filter(({ isGenerated }) => !isGenerated)
          .map((column) => (
            <Field key={column.name} label={column.name} hint={hintOf(column)}>
              <input
                value={values.get(column.name) ?? ''}
                onInput={({ currentTarget }) => set(column.name, currentTarget.value)}
              />
            </Field>
          ))}
        <Problem error={problem} />
        <div class="line end">
          <Button type="submit" kind="primary" disabled={isWaiting}>
            Add row
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function hintOf({ type, isRequired, fallback, inKey }: Column): string {
  const left =
    inKey > 0 && type === 'INTEGER'
      ? 'numbered by itself'
      : fallback !== null
        ? `default ${fallback}`
        : isRequired
          ? 'required'
          : 'null';
  return `${type || 'any type'}; left empty: ${left}`;
}
