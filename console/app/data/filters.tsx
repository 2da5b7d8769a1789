/** The filters of a table: added one by one, and removed. */
import { useState } from 'preact/hooks';
import { Button } from '../../ui/parts.tsx';
import { type Filter, OPERATORS, type Operator, type Table, type View } from './tables.ts';

type FiltersProps = { table: Table; view: View; onChange: (filters: readonly Filter[]) => void };

export function Filters({ table, view, onChange }: FiltersProps) {
  const [column, setColumn] = useState(table.columns[0]?.name ?? '');
  const [operator, setOperator] = useState<Operator>('contains');
  const [value, setValue] = useState('');
  const needsValue = operator !== 'is null' && operator !== 'is not null';
  const add = (event: Event) => {
    event.preventDefault();
    onChange([...view.filters, { column, operator, value: needsValue ? value : '' }]);
    setValue('');
  };
  return (
    <>
      <form class="line" onSubmit={add}>
        <select aria-label="Column" value={column} onChange={({ currentTarget }) => setColumn(currentTarget.value)}>
          {table.columns.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <select
          aria-label="Operator"
          value={operator}
          onChange={({ currentTarget }) => setOperator(currentTarget.value as Operator)}
        >
          {OPERATORS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        {needsValue && (
          <input
            aria-label="Value"
            placeholder="Value"
            value={value}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
          />
        )}
        <Button type="submit" class="small">
          Filter
        </Button>
      </form>
      {view.filters.map((filter, index) => {
        const text = `${filter.column} ${filter.operator} ${filter.value}`.trim();
        return (
          <Button
            key={text}
            class="small chip"
            aria-label={`Remove the filter ${text}`}
            onClick={() => onChange(view.filters.toSpliced(index, 1))}
          >
            {text} ×
          </Button>
        );
      })}
    </>
  );
}
